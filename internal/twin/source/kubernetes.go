package source

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drydock-dev/drydock/internal/clustertoken"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// tokens makes bearer tokens for clusters: presigned requests, which are not sent to STS here.
func tokens(cfg aws.Config) func(context.Context, string) (string, error) {
	return func(ctx context.Context, cluster string) (string, error) {
		if cfg.Credentials == nil {
			return "", errors.New("there are no credentials")
		}
		creds, err := cfg.Credentials.Retrieve(ctx)
		if err != nil {
			return "", err
		}
		return clustertoken.New(ctx, creds, cfg.Region, cluster, time.Now())
	}
}

// notRead are the resources that controllers make by themselves, and those that are about a moment.
var notRead = []string{
	"events", "endpoints", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io", "events.events.k8s.io", "componentstatuses", "ipaddresses.networking.k8s.io",
	"certificatesigningrequests.certificates.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
	"csistoragecapacities.storage.k8s.io", "nodes.metrics.k8s.io", "pods.metrics.k8s.io", "volumeattachments.storage.k8s.io", "servicecidrs.networking.k8s.io",
}

// readKubernetes reads the objects in a cluster.
func (r *reader) readKubernetes(ctx context.Context, c *ekstypes.Cluster) error {
	name := aws.ToString(c.Name)
	client, resources, err := r.connect(ctx, c)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// Everything in the cluster is unknown.
		_, err = ask(ctx, r, listOf(func(context.Context, *listInput) (*listOutput, error) { return nil, kubernetesError(err) }), &listInput{KubernetesList: recording.KubernetesList{Cluster: name}}, "")
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for _, res := range resources {
		g.Go(func() error {
			_, err := ask(ctx, r, listOf(func(ctx context.Context, in *listInput) (*listOutput, error) {
				return list(ctx, client, in, r.opt.Secrets)
			}), &listInput{KubernetesList: res}, "")
			return err
		})
	}
	return g.Wait()
}

// A listInput is a KubernetesList with the token of a page.
type listInput struct {
	recording.KubernetesList
	NextToken *string `json:",omitempty"`
}

// A listOutput is a page of objects.
type listOutput struct {
	Kind  string // PodList
	Items []map[string]any

	NextToken *string `json:"-"`
}

func listOf(call func(context.Context, *listInput) (*listOutput, error)) operation[listInput, listOutput, struct{}] {
	return operation[listInput, listOutput, struct{}]{
		service: twin.Kubernetes, name: "List", redact: func(out *listOutput) (found bool) {
			for _, o := range out.Items {
				if twin.RedactObject(strings.TrimSuffix(out.Kind, "List"), o) {
					found = true
				}
			}
			return found
		},
		call: func(ctx context.Context, in *listInput, _ ...func(*struct{})) (*listOutput, error) {
			return call(ctx, in)
		},
	}
}

// dialPatience is how long the API server may take to accept a connection.
const dialPatience = 10 * time.Second

// connect returns a client that can only read, and the resources to read.
func (r *reader) connect(ctx context.Context, c *ekstypes.Cluster) (rest.Interface, []recording.KubernetesList, error) {
	name := aws.ToString(c.Name)
	if c.Endpoint == nil || c.CertificateAuthority == nil {
		return nil, nil, fmt.Errorf("the cluster is %s", c.Status)
	}
	cfg, err := r.clusterConfig(c)
	if err != nil {
		return nil, nil, err
	}
	cfg.Timeout, cfg.QPS, cfg.Burst, cfg.UserAgent = time.Minute, float32(r.rate), int(2*r.rate)+1, "drydock import"
	cfg.Dial = (&net.Dialer{Timeout: dialPatience}).DialContext // from outside its VPC, a private endpoint never answers
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	// Groups whose server does not answer are left out: those of aggregated APIs are not the cluster's own.
	lists, err := d.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		if v := c.ResourcesVpcConfig; v != nil && !v.EndpointPublicAccess && r.opt.Kubeconfig == "" {
			err = fmt.Errorf("%w; its endpoint is private: run the import where the VPC is reached, or give --kubeconfig for a tunnel", err)
		}
		return nil, nil, err
	}
	var out []recording.KubernetesList
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		for _, res := range l.APIResources {
			full := schema.GroupResource{Group: gv.Group, Resource: res.Name}.String()
			if slices.Contains(res.Verbs, "list") && !slices.Contains(notRead, full) && !strings.Contains(res.Name, "/") {
				out = append(out, recording.KubernetesList{Cluster: name, Group: gv.Group, Version: gv.Version, Resource: res.Name})
			}
		}
	}
	if len(out) == 0 {
		return nil, nil, errors.New("the API server offers no resources")
	}
	return d.RESTClient(), out, ctx.Err()
}

// clusterConfig returns how to reach the API server of a cluster: by the user's kubeconfig if there is one, otherwise by the
// cluster's endpoint.
func (r *reader) clusterConfig(c *ekstypes.Cluster) (*rest.Config, error) {
	reads := &kubernetesReads{}
	cfg := &rest.Config{Host: *c.Endpoint}
	if r.opt.Kubeconfig != "" {
		var err error
		if cfg, err = kubeconfigOf(r.opt.Kubeconfig, c); err != nil {
			return nil, err
		}
	} else {
		ca, err := base64.StdEncoding.DecodeString(aws.ToString(c.CertificateAuthority.Data))
		if err != nil {
			return nil, fmt.Errorf("the cluster's certificate authority: %w", err)
		}
		cfg.CAData = ca
		reads.token = func(ctx context.Context) (string, error) { return r.token(ctx, aws.ToString(c.Name)) }
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { reads.next = next; return reads })
	return cfg, nil
}

// kubeconfigOf returns the configuration of the context that is for a cluster: the one with the cluster's endpoint, or whose
// cluster or own name is the cluster's ARN or name, as for tunnels.
func kubeconfigOf(file string, c *ekstypes.Cluster) (*rest.Config, error) {
	all, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	named := func(s string) bool { return s == aws.ToString(c.Arn) || s == aws.ToString(c.Name) }
	for _, suits := range []func(string, *clientcmdapi.Context) bool{
		func(_ string, of *clientcmdapi.Context) bool {
			at := all.Clusters[of.Cluster]
			return at != nil && strings.TrimSuffix(at.Server, "/") == *c.Endpoint
		},
		func(name string, of *clientcmdapi.Context) bool { return named(name) || named(of.Cluster) },
	} {
		for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
			if suits(name, all.Contexts[name]) {
				return clientcmd.NewNonInteractiveClientConfig(*all, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
			}
		}
	}
	return nil, fmt.Errorf("no context of %s is for cluster %s: none has the server %s, and none is named after it", file, aws.ToString(c.Name), *c.Endpoint)
}

// kubernetesReads is the transport of requests to a cluster. It lets only reads pass, and reads bounded responses.
type kubernetesReads struct {
	next http.RoundTripper
	// token returns the bearer token. It is nil if the user's kubeconfig says how to authenticate.
	token func(context.Context) (string, error)
}

// RoundTrip sends a request.
func (k *kubernetesReads) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || strings.Contains(req.URL.RawQuery, "watch") {
		return nil, &RefusedError{twin.Kubernetes, req.Method}
	}
	if k.token != nil {
		token, err := k.token(req.Context())
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := k.next.RoundTrip(req)
	if err == nil && resp.StatusCode/100 == 3 { // whoever it leads to would get the token
		_ = resp.Body.Close()
		return nil, errors.New("the API server redirects requests to " + resp.Header.Get("Location"))
	}
	if err == nil {
		resp.Body = &boundedBody{resp.Body, recording.MaxPageBytes}
	}
	return resp, err
}

// list returns a page of objects. The values of Secrets are left out unless secrets is set.
func list(ctx context.Context, client rest.Interface, in *listInput, secrets bool) (*listOutput, error) {
	path := "/api/" + in.Version
	if in.Group != "" {
		path = "/apis/" + in.Group + "/" + in.Version
	}
	req := client.Get().AbsPath(path, in.Resource).Param("limit", "500").SetHeader("Accept", "application/json")
	if in.NextToken != nil {
		req = req.Param("continue", *in.NextToken)
	}
	raw, err := req.Do(ctx).Raw()
	if err != nil {
		return nil, kubernetesError(err)
	}
	var page struct {
		Kind     string           `json:"kind"`
		Metadata metav1.ListMeta  `json:"metadata"`
		Items    []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, err
	}
	out := &listOutput{Kind: page.Kind, Items: page.Items}
	for _, o := range out.Items { // whether or not other secrets are masked
		twin.StripObject(in.KubernetesList, o, secrets)
	}
	if page.Metadata.Continue != "" {
		out.NextToken = &page.Metadata.Continue
	}
	return out, nil
}

// kubernetesError gives the errors that leave a gap the codes of AWS.
func kubernetesError(err error) error {
	code := recording.Unreachable
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		code = "AccessDenied"
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		code = "ResourceNotFoundException"
	case errors.Is(err, recording.ErrTooLarge), errors.Is(err, context.Canceled):
		return err
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	return &smithy.GenericAPIError{Code: code, Message: err.Error()}
}
