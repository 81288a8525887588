package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(withAWS{m}, map[string]func(){"podprogram": podProgram, "crane": crane, "opentunnel": openTunnel, "cutproxy": cutProxy})
}

// podProgram is a program of a pod, for drydock run --pod: it knows nothing but the
// AWS SDK's default credential chain, and prints who it is and how many users it may
// list.
func podProgram() {
	if err := runPodProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runPodProgram() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
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
