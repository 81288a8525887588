package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/podidentityagent"
)

// agentAddress is where pods find the EKS Pod Identity Agent of their node.
var agentAddress = net.IPv4(169, 254, 170, 23)

// runPodIdentityAgent is the EKS Pod Identity Agent of a node, with the commands and arguments of the add-on's pod:
// initialize gives the node the agent's address, server answers there. Each pod's token goes to EKS Auth, as the node.
// https://github.com/aws/eks-pod-identity-agent
func runPodIdentityAgent(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "initialize":
		return code(addAgentAddress())
	case "server":
		return code(serveAgent(ctx, args[1:]))
	}
	return code(fmt.Errorf("eks-pod-identity-agent: unknown command %q: want initialize or server", command))
}

// addAgentAddress adds the agent's address to the loopback interface. The real agent adds an interface for it, of a type
// that not every kernel has.
func addAgentAddress() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.AddrReplace(lo, &netlink.Addr{IPNet: &net.IPNet{IP: agentAddress, Mask: net.CIDRMask(32, 32)}})
}

func serveAgent(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	port := flags.String("port", "80", "")
	cluster := flags.String("cluster-name", "", "")
	probePort := flags.String("probe-port", "2703", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	region := os.Getenv("AWS_REGION")
	fmt.Printf("eks-pod-identity-agent of Drydock: serving cluster %s in %s\n", *cluster, region)
	agent := podidentityagent.Handler(func(ctx context.Context, token string) (podidentityagent.Credentials, error) {
		return assumeRoleForPod(ctx, region, *cluster, token)
	})
	healthy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	g, ctx := errgroup.WithContext(ctx)
	for address, handler := range map[string]http.Handler{net.JoinHostPort(agentAddress.String(), *port): agent, net.JoinHostPort("localhost", *probePort): healthy} {
		s := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		g.Go(func() error {
			if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			return s.Close()
		})
	}
	return g.Wait()
}

// assumeRoleForPod calls EKS Auth as the node.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_auth_AssumeRoleForPodIdentity.html
func assumeRoleForPod(ctx context.Context, region, cluster, token string) (podidentityagent.Credentials, error) {
	unsent := func(err error) (podidentityagent.Credentials, error) {
		return podidentityagent.Credentials{}, &podidentityagent.UnsentError{Err: err}
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
	if err != nil {
		return unsent(err)
	}
	creds, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return unsent(err)
	}
	body, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		return unsent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://eks-auth."+region+".api.aws/clusters/"+url.PathEscape(cluster)+"/assume-role-for-pod-identity", bytes.NewReader(body))
	if err != nil {
		return unsent(err)
	}
	req.Header.Set("Content-Type", "application/json")
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, creds, req, hex.EncodeToString(sum[:]), "eks-auth", region, time.Now()); err != nil {
		return unsent(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return unsent(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return unsent(err)
	}
	if res.StatusCode != http.StatusOK {
		kind, _, _ := strings.Cut(res.Header.Get("X-Amzn-Errortype"), ":")
		var e struct{ Message string }
		_ = json.Unmarshal(b, &e) // an answer of something else has no message
		return podidentityagent.Credentials{}, &smithy.GenericAPIError{Code: kind, Message: e.Message}
	}
	var out struct {
		AssumedRoleUser struct{ ARN string }
		Credentials     struct {
			AccessKeyID, SecretAccessKey, SessionToken string
			Expiration                                 float64 // seconds
		}
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return unsent(err)
	}
	user, err := arn.Parse(out.AssumedRoleUser.ARN)
	if err != nil {
		return unsent(err)
	}
	c := out.Credentials
	return podidentityagent.Credentials{
		AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, Token: c.SessionToken, AccountID: user.Account,
		Expiration: time.UnixMilli(int64(c.Expiration * 1000)).UTC(),
	}, nil
}
