package compute

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// guests is what simulated machines see of the network.
type guests struct {
	machines *Machines
	endpoint string // host:port of the AWS endpoint on this machine
	trusted  *x509.CertPool
	origins  *Origins // of their connections to the AWS endpoint
}

// dial connects an instance to a name and port outside of it, if its network allows that.
func (g *guests) dial(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error) {
	if c, err := g.machines.DialEndpoint(ctx, in, host, port); err == nil || !unknownName(err) {
		return c, err
	}
	v, err := g.machines.network.allow(ctx, in, host, port)
	if c, ok, err := g.machines.throughBalancer(in.Account, in.Region, port, netip.AddrPortFrom(in.PrivateIP, machine.SourceFrom(ctx).Port()), v, err); ok || err != nil {
		return c, err
	}
	if err != nil {
		return nil, err
	}
	if plane, ok := g.machines.planeBehind(ctx, in, v); ok && port == 443 {
		c, err := g.machines.cfg.ControlPlanes.Dial(ctx, plane)
		if err != nil {
			return nil, err
		}
		return g.machines.network.track(c, in, host, v), nil
	}
	if id, address, ok := instanceAt(v); ok {
		conn, err := g.machines.enter(ctx, id, address, port, v)
		if err != nil {
			return nil, err
		}
		return g.machines.network.track(conn, in, host, v), nil
	}
	if r := v.Resolution; r != nil && r.LoadBalancer != "" {
		return nil, &node.Refusal{Err: io.EOF, Decision: node.Decision{
			By: node.ByNetwork, Component: r.LoadBalancer,
			Text: "the connection opens but gets no answer: no program runs behind the targets of simulated load balancers",
		}}
	}
	if !strings.HasSuffix(host, ".amazonaws.com") && !strings.HasSuffix(host, ".api.aws") || strings.HasSuffix(host, ".eks.amazonaws.com") || port != 443 && port != 80 {
		// A simulated machine only reaches AWS, its clusters and other instances. A cluster whose name gets here has been
		// deleted.
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", g.endpoint)
	if err != nil {
		return nil, err
	}
	c := &guestConn{Conn: conn, n: g.machines.network, in: in, name: host, verdict: v}
	return g.origins.add(conn, c.origin()), nil // for one call, so too short-lived to be cut
}

func unknownName(err error) bool {
	return errors.Is(err, errNoEndpoint)
}

// http returns an instance's way to send HTTP requests.
func (g *guests) http(in machine.Instance) http.RoundTripper {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, p, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			port, err := strconv.Atoi(p)
			if err != nil {
				return nil, err
			}
			return g.dial(ctx, in, host, port)
		},
		TLSClientConfig:       &tls.Config{RootCAs: g.trusted, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:     true, // a machine rarely calls, and there are thousands of them
		ResponseHeaderTimeout: 30 * time.Second,
	}
}

// describeCluster calls EKS as the instance's role. Its errors are worded like the AWS CLI's.
func (g *guests) describeCluster(ctx context.Context, in machine.Instance, region, name string) (node.ClusterInfo, error) {
	creds, err := g.machines.credentials(ctx, in.ID)
	if err != nil {
		return node.ClusterInfo{}, errors.New(`Unable to locate credentials. You can configure credentials by running "aws configure".`) //nolint:staticcheck // the AWS CLI's text
	}
	client := awseks.New(awseks.Options{
		Region: region, HTTPClient: &http.Client{Transport: g.http(in), Timeout: 30 * time.Second}, RetryMaxAttempts: 1,
		Credentials:  credentials.StaticCredentialsProvider{Value: creds},
		BaseEndpoint: aws.String("https://eks." + region + ".amazonaws.com"),
	})
	out, err := client.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &name})
	if err != nil {
		return node.ClusterInfo{}, cliError(err, "DescribeCluster", "https://eks."+region+".amazonaws.com/clusters/"+name)
	}
	c := out.Cluster
	if c.Status != ekstypes.ClusterStatusActive && c.Status != ekstypes.ClusterStatusUpdating || c.CertificateAuthority == nil {
		return node.ClusterInfo{}, fmt.Errorf("Waiter ClusterActive failed: the cluster is %s", c.Status) //nolint:staticcheck // the AWS CLI's text
	}
	info := node.ClusterInfo{Endpoint: aws.ToString(c.Endpoint)}
	if info.CA, err = base64.StdEncoding.DecodeString(aws.ToString(c.CertificateAuthority.Data)); err != nil {
		return node.ClusterInfo{}, err
	}
	if p, ok := g.machines.cfg.ControlPlanes.ByEndpoint(info.Endpoint); ok {
		// The API returns this machine's address; a guest uses AWS's name.
		info.Endpoint = "https://" + p.AWSHost
	}
	if n := c.KubernetesNetworkConfig; n != nil {
		info.ServiceCIDR, info.IPFamily = aws.ToString(cmp.Or(n.ServiceIpv6Cidr, n.ServiceIpv4Cidr)), string(n.IpFamily)
	}
	return info, nil
}

// A wordedError is an error in the words of a program.
type wordedError struct {
	text string
	err  error
}

func (e *wordedError) Error() string { return e.text }
func (e *wordedError) Unwrap() error { return e.err }

// cliError words an error as the AWS CLI does.
func cliError(err error, operation, target string) error {
	var ae smithy.APIError
	var oe *net.OpError // a *url.Error around a decision does not report that it is a timeout
	keep := func(text string) error {
		if why := node.DecisionOf(err); why != nil {
			return &node.Refusal{Err: errors.New(text), Decision: *why}
		}
		return errors.New(text)
	}
	switch {
	case errors.As(err, &ae):
		return &wordedError{fmt.Sprintf("An error occurred (%s) when calling the %s operation: %s", ae.ErrorCode(), operation, ae.ErrorMessage()), err}
	case errors.As(err, &oe) && oe.Timeout():
		return keep(fmt.Sprintf("Connect timeout on endpoint URL: %q", target)) // the AWS CLI's text
	}
	return keep(fmt.Sprintf("Could not connect to the endpoint URL: %q", target)) // the AWS CLI's text
}
