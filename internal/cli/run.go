package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/atomicfile"
)

func newRun(o *globalOptions) *cobra.Command {
	var pod runPodFlags
	cmd := &cobra.Command{
		Use:   "run [--pod NAMESPACE/NAME] -- COMMAND [ARG...]",
		Short: "Run a command whose AWS calls go to Drydock",
		Long: `Run a command whose AWS calls go to Drydock.

Besides the variables of drydock env, the command gets a proxy that answers for
AWS's own host names (*.amazonaws.com, *.api.aws), with load balancers, and forwards connections to other
hosts, and a bundle of CA certificates that includes Drydock's, so programs that cannot
be given an endpoint, or that read a cluster's OIDC issuer, reach Drydock too. ssh, scp
and sftp in it reach instances as "drydock ssh" does. On Linux, "aws ec2-instance-connect
ssh" of AWS CLI 2, which trusts the system's certificates only, finds Drydock's among them.
Your own AWS_ACCESS_KEY_ID is kept if Drydock knows it. The proxy stops with the command; on Linux it refuses other users'
programs. On macOS, Go programs trust only the system's certificates; elsewhere calls to
S3 go over https, because many buckets' policies refuse http.

With --pod the command runs on this machine, but as a container of a running pod: it has
the container's variables and fresh tokens of the pod's service account, renewed as the
kubelet renews them, and none of your own identity. It gets AWS credentials as the pod
does: from IAM roles for service accounts, EKS Pod Identity (if the agent runs on the
pod's node) or the node's metadata service. The pod's network and VPC endpoints decide
what it can reach. "drydock why pod|serviceaccount|request" explain why something fails.

NAME may also be a Deployment's, or another owner's of pods.

The pod's tokens are in a temporary folder, which $DRYDOCK_POD_FILES names. On Linux the
command also finds them at /var/run/secrets, as in the container, where the system permits
a mount namespace: to root, and to users if they may make user namespaces. Elsewhere
KUBECONFIG has the token of the cluster, where kubectl and client-go's default loading
rules find it. Other volumes are missing. HOME is a folder with links to the contents of
yours, without .aws, .kube and .boto.`,
		Example: `  drydock run -- terraform apply
  drydock run --pod default/web -- aws sts get-caller-identity
  drydock run --pod kube-system/my-controller --container manager -- bin/manager --leader-elect
  drydock run --pod kube-system/my-controller-7c5ddbdf54-9x2lq --cluster dev -- bin/controller
  drydock run -- eksctl utils associate-iam-oidc-provider --cluster dev --approve`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if pod.pod == "" && (pod.cluster != "" || pod.container != "") {
				return &ExitError{2, withHint(errors.New("--cluster and --container need --pod"), "drydock run --pod default/web -- COMMAND")}
			}
			info, err := o.readInfo()
			if err != nil {
				return err
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				return &ExitError{127, err}
			}
			if pod.pod != "" {
				return o.runAsPod(cmd.Context(), info, &pod, path, args)
			}
			bundle, err := writeBundle(info)
			if err != nil {
				return err
			}
			return o.runWithProxy(cmd.Context(), info, bundle, path, args)
		},
	}
	pod.add(cmd, o)
	return cmd
}

// runWithProxy runs a program with a proxy that ends with the program.
func (o *globalOptions) runWithProxy(ctx context.Context, info api.DaemonInfo, bundle, path string, args []string) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// Signals are passed to the program; the proxy must outlive it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { newForwarder(info.URL, api.Bearer+info.Token, "").serve(ctx, ln) })
	keys, err := o.callerKeys(ctx, info)
	if err != nil {
		return err
	}
	info.AccessKeyID, info.SecretAccessKey = keys.AccessKeyID, keys.SecretAccessKey
	env := childEnv(os.Environ(), info, bundle, "http://"+ln.Addr().String())
	// ssh does not use HTTPS_PROXY, so a configuration makes it reach instances.
	if bin, err := o.writeSSH(info, api.Place{}, bundle); err != nil {
		o.progress("Note: ssh does not reach instances: %v", err)
	} else {
		env = append(env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		if script := filepath.Join(bin, args[0]); slices.Contains(runPrograms, args[0]) {
			if _, err := os.Stat(script); err == nil {
				path = script
			}
		}
	}
	if keys.SessionToken != "" {
		env = append(env, "AWS_SESSION_TOKEN="+keys.SessionToken)
	}
	began := time.Now()
	err = o.runChild(child(path, args, env))
	if _, failed := errors.AsType[*ExitError](err); failed {
		o.suggest(ctx, info, began)
	}
	return err
}

// suggest prints commands that explain a program's failed requests, for errors that do not give a reason.
func (o *globalOptions) suggest(ctx context.Context, info api.DaemonInfo, began time.Time) {
	daemon, err := o.client()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, _ := daemon.Try(ctx, info.AccessKeyID, began) // the program's own error has been printed
	const most = 3
	for _, try := range list[:min(len(list), most)] {
		o.progress("Try: %s", try)
	}
	if n := len(list) - most; n > 0 {
		o.progress("and %d more", n)
	}
}

// callerKeys returns the access key in the environment. If Drydock does not know it, because it belongs to a real AWS
// account, callerKeys returns that of the daemon's default user.
func (o *globalOptions) callerKeys(ctx context.Context, info api.DaemonInfo) (aws.Credentials, error) {
	keys := aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN")}
	cfg := awsConfig(info)
	if keys.AccessKeyID != "" && keys.SecretAccessKey != "" {
		cfg.Credentials = credentials.StaticCredentialsProvider{Value: keys}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, err := awssts.NewFromConfig(cfg).GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{})
		if refused, ok := errors.AsType[smithy.APIError](err); !ok || refused.ErrorCode() != "InvalidClientTokenId" {
			// The program gets any other refusal, such as ExpiredToken, itself.
			if ok {
				err = nil
			}
			return keys, err
		}
		o.progress("Note: Drydock does not know the key in AWS_ACCESS_KEY_ID; the command runs as its default user")
	}
	return aws.Credentials{AccessKeyID: info.AccessKeyID, SecretAccessKey: info.SecretAccessKey}, nil
}

// secureEndpoints name the endpoints that clients call over https.
var secureEndpoints = []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_SQS"}

// childEnv returns base with the daemon's variables, its proxy and a CA bundle replacing the caller's own.
func childEnv(base []string, info api.DaemonInfo, bundle, proxy string) []string {
	vars := environment(info)
	for i := range vars {
		if vars[i][0] == "AWS_CA_BUNDLE" {
			vars[i][1] = bundle
		}
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		vars = append(vars, [2]string{name, proxy})
	}
	// Drydock's own addresses: the endpoint and those of clusters.
	direct := "localhost,127.0.0.1,::1"
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		if i := slices.IndexFunc(base, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }); i >= 0 && len(base[i]) > len(name)+1 {
			vars = append(vars, [2]string{name, base[i][len(name)+1:] + "," + direct})
		} else {
			vars = append(vars, [2]string{name, direct})
		}
	}
	// For Go and OpenSSL, Python's requests, curl, Node.
	for _, name := range []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} {
		vars = append(vars, [2]string{name, bundle})
	}
	vars = append(vars, [2]string{"NODE_EXTRA_CA_CERTS", info.CAFile})
	// Many policies of buckets and queues refuse http (aws:SecureTransport), including that of `cdk bootstrap` and that of
	// Karpenter's interruption queue. On macOS, Go programs would not trust the certificate.
	if runtime.GOOS != "darwin" {
		for _, name := range secureEndpoints {
			vars = append(vars, [2]string{name, strings.Replace(info.URL, "http://", "https://", 1)})
		}
	}

	drop := map[string]bool{}
	for _, name := range unset {
		drop[name] = true
	}
	for _, v := range vars {
		drop[v[0]] = true
	}
	out := make([]string, 0, len(base)+len(vars))
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		// A per-service endpoint (AWS_ENDPOINT_URL_EKS) would override ours.
		if !drop[name] && !strings.HasPrefix(name, "AWS_ENDPOINT_URL_") {
			out = append(out, kv)
		}
	}
	for _, v := range vars {
		out = append(out, v[0]+"="+v[1])
	}
	return out
}

// systemBundles are where systems keep their CA certificates, as in Go's crypto/x509. The first that exists is used.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7 and later
	"/etc/ssl/cert.pem",                                 // Alpine, macOS
}

// writeBundle writes the CA certificates that programs of `drydock run` trust into
// the data folder: the caller's own or the system's, and Drydock's.
func writeBundle(info api.DaemonInfo) (string, error) {
	own, err := os.ReadFile(info.CAFile)
	if err != nil {
		return "", fmt.Errorf("the certificate of Drydock's CA: %w\nTry: drydock down, drydock up -d", err)
	}
	file := filepath.Join(info.DataDir, "ca-bundle.pem")
	var all []byte
	for _, name := range append([]string{os.Getenv("SSL_CERT_FILE")}, systemBundles...) {
		if name == "" || name == file {
			continue
		}
		if all, err = os.ReadFile(name); err == nil {
			break
		}
	}
	all = append(append(all, '\n'), own...)
	if old, err := os.ReadFile(file); err == nil && string(old) == string(all) {
		return file, nil
	}
	return file, atomicfile.Write(file, all, 0o600) // another program may be reading it
}
