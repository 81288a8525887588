package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/node"
)

// A Cluster is the cluster of a node, as the VPC CNI plugin's daemon on the node uses it.
type Cluster struct {
	Name string
	Node string // name of the Node object
	API  API
	// AgentRuns reports whether the EKS Pod Identity agent runs on the node.
	AgentRuns func(ctx context.Context) bool
}

// API is the cluster's API as a node calls it.
type API interface {
	// Call makes a call as the node. body and into may be nil.
	Call(ctx context.Context, verb, path string, body, into runtime.Object) error
	// GetAs reads an object as JSON with another token than the node's.
	GetAs(ctx context.Context, token, path string, into any) error
}

// PodIdentityAgent is how the names of the EKS Pod Identity agent's pods begin.
const PodIdentityAgent = "eks-pod-identity-agent-"

// A cniPod is the pod of aws-node in which the VPC CNI plugin's daemon runs. It decides who calls EC2, and reads the
// node's ENIConfig. Nil stands for no such pod.
type cniPod struct {
	Cluster
	m               *instance
	namespace, name string
	uid             types.UID
	aws             *awsNode
	reported        string // the last missing permission that report has reported
}

// identify gets the credentials that sign the daemon's calls. Nil means the node's.
func (p *cniPod) identify(ctx context.Context) (*aws.Credentials, error) {
	if p == nil || p.aws.role == "" && !p.aws.identity {
		return nil, nil
	}
	if p.m.rt.cfg.PodCredentials == nil {
		return nil, errors.New("no credential provider is configured for pods")
	}
	id := node.PodIdentity{Cluster: p.Cluster.Name, Namespace: p.namespace, ServiceAccount: awsNodeAccount, RoleARN: p.aws.role}
	audience := "sts.amazonaws.com"
	if p.aws.role == "" {
		audience = "pods.eks.amazonaws.com"
		if !p.AgentRuns(ctx) {
			return nil, errors.New("failed to refresh cached credentials, failed to load credentials, exceeded maximum number of attempts, 3, : " +
				"Get \"http://169.254.170.23/v1/credentials\": dial tcp 169.254.170.23:80: connect: connection refused")
		}
	}
	token, err := p.token(ctx, audience)
	if err != nil {
		return nil, fmt.Errorf("a token for the service account %s: %w", awsNodeAccount, err)
	}
	id.Token = token
	creds, err := p.m.rt.cfg.PodCredentials(ctx, p.m.in, id)
	if err != nil {
		return nil, err
	}
	return &creds, nil
}

// token asks the API server for a token of the pod's service account, as the kubelet does for the pod's volumes. No
// audience means the API server's.
func (p *cniPod) token(ctx context.Context, audience ...string) (string, error) {
	req := &authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec: authenticationv1.TokenRequestSpec{
			Audiences: audience, ExpirationSeconds: ptr(int64(3600)),
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.name, UID: p.uid},
		},
	}
	var out authenticationv1.TokenRequest
	err := p.API.Call(ctx, http.MethodPost, "/api/v1/namespaces/"+p.namespace+"/serviceaccounts/"+awsNodeAccount+"/token", req, &out)
	return out.Status.Token, err
}

// eniConfig finds the ENIConfig of the node, as the daemon's service account.
// https://github.com/aws/amazon-vpc-cni-k8s/blob/master/pkg/eniconfig/eniconfig.go
func (p *cniPod) eniConfig(ctx context.Context, c *cniConfig) (subnet string, groups []string, err error) {
	if p == nil {
		return "", nil, errors.New("eniconfig: eniconfig is not available")
	}
	var n corev1.Node
	if err := p.API.Call(ctx, http.MethodGet, "/api/v1/nodes/"+p.Node, nil, &n); err != nil {
		return "", nil, err
	}
	name, ok := n.Labels["vpc.amazonaws.com/externalEniConfig"]
	if !ok {
		name, ok = n.Annotations[c.eniConfigAnnotation]
	}
	if !ok {
		name, ok = n.Labels[c.eniConfigLabel]
	}
	if !ok {
		name = "default"
	}
	token, err := p.token(ctx)
	if err != nil {
		return "", nil, err
	}
	var config struct {
		Spec struct {
			Subnet         string   `json:"subnet"`
			SecurityGroups []string `json:"securityGroups"`
		} `json:"spec"`
	}
	if err := p.API.GetAs(ctx, token, "/apis/crd.k8s.amazonaws.com/v1alpha1/eniconfigs/"+name, &config); err != nil {
		return "", nil, fmt.Errorf("eniconfig: eniconfig is not available: %s: %w", name, err)
	}
	return config.Spec.Subnet, config.Spec.SecurityGroups, nil
}

// missingPermission is the reason of the event by which the daemon reports a missing permission.
const missingPermission = "MissingIAMPermissions"

func missingPermissionText(action string) string {
	return "Unauthorized operation: failed to call " + action +
		" due to missing permissions. Please refer https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/iam-policy.md to attach relevant policy to IAM role"
}

// report reports a missing permission by an event of the pod, unless the last one was the same. An event that cannot be written
// is lost, as those of other programs are.
func (p *cniPod) report(ctx context.Context, action string) {
	if p == nil || p.reported == action {
		return
	}
	p.reported = action
	now := metav1.NewTime(p.m.rt.clock.Now())
	_ = p.API.Call(ctx, http.MethodPost, "/api/v1/namespaces/"+p.namespace+"/events", &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", p.name, now.UnixNano()), Namespace: p.namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.namespace, Name: p.name, UID: p.uid},
		Reason:         missingPermission, Message: missingPermissionText(action), Type: corev1.EventTypeWarning,
		Source: corev1.EventSource{Component: awsNodeContainer, Host: p.Node}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, nil)
}
