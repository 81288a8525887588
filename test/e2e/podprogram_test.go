package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drydock-dev/drydock/test/podenv"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"podprogram": podProgram})
}

// podProgram is a program of a pod: `podprogram CLUSTER NAMESPACE POD` uses the AWS
// SDK's default credential chain in the environment of that pod and prints who it is
// and whether it may list users. Nothing of the script's own credentials is left.
func podProgram() {
	if err := runPodProgram(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runPodProgram(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: podprogram CLUSTER NAMESPACE POD")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	rest, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pod")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	agent := strings.Replace(os.Getenv("AWS_ENDPOINT_URL"), "localhost", "127.0.0.1", 1) + "/_drydock/pod-identity/000000000000/us-east-1/" + args[0]
	env, err := podenv.Of(ctx, client, args[1], args[2], dir, agent)
	if err != nil {
		return err
	}
	os.Clearenv()
	for k, v := range env {
		if err := os.Setenv(k, v); err != nil {
			return err
		}
	}
	// An SDK that finds nothing asks the metadata service, which pods of this test
	// have none of.
	os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	who, err := awssts.NewFromConfig(cfg).GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{})
	if err != nil {
		return err
	}
	fmt.Println(*who.Arn)
	users, err := awsiam.NewFromConfig(cfg).ListUsers(ctx, &awsiam.ListUsersInput{})
	if err != nil {
		return err
	}
	fmt.Println("users:", len(users.Users))
	return nil
}
