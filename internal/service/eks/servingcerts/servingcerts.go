// Package servingcerts approves the requests of kubelets for serving certificates, as EKS's control plane does. The controller
// manager signs approved requests. Without an approval, a kubelet serves nothing: `kubectl logs` fails with "remote error:
// tls: internal error".
//
// A request is approved if it comes from the node that it names, if the cluster role eks:node-bootstrapper lets that node ask for
// one, and if all its names and addresses are those of the node's instance in EC2, or of the network interface of a Fargate node.
// Others stay pending.
// https://docs.aws.amazon.com/eks/latest/userguide/cert-signing.html
package servingcerts

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	authzv1 "k8s.io/api/authorization/v1"
	certsv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// How long a request waits until it is looked at again. EC2 may not know its instance yet, or may not answer.
const firstWait, longestWait = 100 * time.Millisecond, 30 * time.Second

// A Service approves requests.
type Service struct{ *base.Service }

// New returns the part of EKS that approves requests for serving certificates.
func New(b *base.Service) *Service { return &Service{b} }

// Follow approves the requests in a cluster until the session of its control plane ends. Following it again does nothing.
func (s *Service) Follow(key store.Key, planeID string) {
	ses, err := s.Sessions.Open(key, planeID)
	if err != nil {
		return // the next reconciliation opens it
	}
	plane.Value(ses, func(ses *plane.Session) *approver {
		a := &approver{s: s, key: key, ses: ses, queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstWait, longestWait))}
		a.start()
		return a
	})
}

// An approver approves the requests in one cluster.
type approver struct {
	s        *Service
	key      store.Key
	ses      *plane.Session
	requests cache.Indexer
	queue    workqueue.TypedRateLimitingInterface[string]
}

func (a *approver) start() {
	all := a.ses.Client.CertificatesV1().CertificateSigningRequests()
	only := fields.OneTermEqualSelector("spec.signerName", certsv1.KubeletServingSignerName).String()
	inf := a.ses.Informer(a.ses.Context, &certsv1.CertificateSigningRequest{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return all.List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return all.Watch(ctx, o)
		}, cache.Indexers{})
	a.requests = inf.GetIndexer()
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if r, ok := obj.(*certsv1.CertificateSigningRequest); ok && len(r.Status.Conditions) == 0 {
			a.queue.Add(r.Name)
		}
	}}); err != nil {
		a.s.Log.Error("watching requests for certificates", "err", err)
		return
	}
	a.ses.Go(func() {
		<-a.ses.Context.Done()
		a.queue.ShutDown()
	})
	a.ses.Go(a.work)
}

func (a *approver) work() {
	for {
		name, ended := a.queue.Get()
		if ended {
			return
		}
		err := a.look(a.ses.Context, name)
		switch {
		case err == nil:
			a.queue.Forget(name)
		case !errors.Is(err, errForeign):
			a.queue.AddRateLimited(name) // until the request is gone
		default:
			a.queue.Forget(name)
			a.s.Log.Info("a kubelet's request for a serving certificate stays pending", "cluster", a.key.String(), "request", name, "why", err)
		}
		a.queue.Done(name)
	}
}

// errForeign means that a request is not one of a node for itself.
var errForeign = errors.New("it is not the request of a node for itself")

// look approves a request if everything is right, and returns why it is not approved.
func (a *approver) look(ctx context.Context, name string) error {
	obj, ok, err := a.requests.GetByKey(name)
	r, isRequest := obj.(*certsv1.CertificateSigningRequest)
	if err != nil || !ok || !isRequest || len(r.Status.Conditions) > 0 {
		return err
	}
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return fmt.Errorf("%w: it has no PEM block", errForeign)
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	node, ok := strings.CutPrefix(r.Spec.Username, "system:node:")
	if !ok || asked.Subject.CommonName != r.Spec.Username {
		return fmt.Errorf("%w: the user %s asks for %s", errForeign, r.Spec.Username, asked.Subject.CommonName)
	}
	review, err := a.ses.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authzv1.SubjectAccessReview{Spec: authzv1.SubjectAccessReviewSpec{
		User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups,
		ResourceAttributes: &authzv1.ResourceAttributes{Group: certsv1.GroupName, Version: "*", Resource: "certificatesigningrequests", Subresource: "selfnodeserver", Verb: "create"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("checking what %s may do: %w", r.Spec.Username, err)
	}
	if !review.Status.Allowed {
		return fmt.Errorf("%w: %s may not create certificatesigningrequests/selfnodeserver", errForeign, r.Spec.Username)
	}
	if err := a.compare(ctx, node, asked); err != nil {
		return err
	}
	approved := r.DeepCopy()
	approved.Status.Conditions = []certsv1.CertificateSigningRequestCondition{{
		Type: certsv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved",
		Message: "Auto approving self kubelet server certificate after SubjectAccessReview.", // from memory
	}}
	_, err = a.ses.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, name, approved, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// compare returns an error if a request has a name or address that the node's machine does not have.
func (a *approver) compare(ctx context.Context, node string, asked *x509.CertificateRequest) error {
	rec, err := record.Clusters.Get(a.s.Store, a.key)
	if err != nil {
		return err
	}
	vpc := aws.ToString(rec.Cluster.ResourcesVpcConfig.VpcId)
	look := a.instance
	if strings.HasPrefix(node, fargatePrefix) {
		look = a.fargate
	}
	names, addresses, err := look(ctx, node, vpc)
	if err != nil {
		return fmt.Errorf("looking up the machine of node %s: %w", node, err)
	}
	if len(names) == 0 {
		return fmt.Errorf("no running machine of the cluster's VPC is node %s", node)
	}
	for _, name := range asked.DNSNames {
		if name == "" || !slices.Contains(names, name) {
			return fmt.Errorf("%w: it has the name %s, which the machine does not have", errForeign, name)
		}
	}
	for _, address := range asked.IPAddresses {
		if !slices.ContainsFunc(addresses, func(text string) bool { return net.ParseIP(text).Equal(address) }) {
			return fmt.Errorf("%w: it has the address %s, which the machine does not have", errForeign, address)
		}
	}
	return nil
}

// instance returns the names and addresses of the instance that is a node, or none.
func (a *approver) instance(ctx context.Context, node, vpc string) (names, addresses []string, err error) {
	by := "private-dns-name" // which is unique in a VPC
	if strings.HasPrefix(node, "i-") {
		by = "instance-id"
	}
	out, err := a.s.Instances.DescribeInstances(a.s.AsService(ctx, a.key.Account, a.key.Region), &awsec2.DescribeInstancesInput{IncludeManagedResources: new(true), Filters: []ec2types.Filter{
		base.EC2Filter(by, node), base.EC2Filter("vpc-id", vpc), base.EC2Filter("instance-state-name", "pending", "running"),
	}})
	if err != nil {
		return nil, nil, err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			names = append(names, node, aws.ToString(i.PrivateDnsName))
			if i.PublicDnsName != nil {
				names = append(names, *i.PublicDnsName)
			}
			addresses = append(addresses, aws.ToString(i.PublicIpAddress))
			for _, e := range i.NetworkInterfaces {
				for _, p := range e.PrivateIpAddresses {
					addresses = append(addresses, aws.ToString(p.PrivateIpAddress))
					if p.Association != nil {
						addresses = append(addresses, aws.ToString(p.Association.PublicIp))
					}
				}
				for _, p := range e.Ipv6Addresses {
					addresses = append(addresses, aws.ToString(p.Ipv6Address))
				}
			}
		}
	}
	return names, addresses, nil
}

// fargatePrefix begins the names of Fargate's nodes. The rest is the name of the node's network interface.
const fargatePrefix = "fargate-"

// fargate returns the names and addresses of the network interface of a Fargate node, or none. Fargate has made the interface.
func (a *approver) fargate(ctx context.Context, node, vpc string) (names, addresses []string, err error) {
	name := strings.TrimPrefix(node, fargatePrefix)
	out, err := a.s.Network.DescribeNetworkInterfaces(a.s.AsService(ctx, a.key.Account, a.key.Region), &awsec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{
		base.EC2Filter("private-dns-name", name), base.EC2Filter("vpc-id", vpc), base.EC2Filter("requester-managed", "true"),
	}})
	if err != nil {
		return nil, nil, err
	}
	for _, e := range out.NetworkInterfaces {
		if !strings.HasPrefix(aws.ToString(e.Description), "Fargate pod ") {
			continue
		}
		names = append(names, node, name)
		addresses = append(addresses, aws.ToString(e.PrivateIpAddress))
	}
	return names, addresses, nil
}
