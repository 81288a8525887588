package eks_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authzv1 "k8s.io/api/authorization/v1"
	certsv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
)

// Requests of kubelets for serving certificates are approved if they are what EC2 says of the node's instance.
func TestServingCertificates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	const node = "ip-172-31-0-9.ec2.internal"
	i := instance("i-9", node)
	i.PublicDnsName, i.PublicIpAddress = aws.String("ec2-54-0-0-9.compute-1.amazonaws.com"), aws.String("54.0.0.9")
	i.VpcId = aws.String("vpc-main")
	i.NetworkInterfaces = []ec2types.InstanceNetworkInterface{{PrivateIpAddresses: []ec2types.InstancePrivateIpAddress{{PrivateIpAddress: aws.String("172.31.0.9")}}}}
	elsewhere := instance("i-8", node) // the ranges of VPCs may be equal
	elsewhere.VpcId, elsewhere.PublicIpAddress = aws.String("vpc-other"), aws.String("54.0.0.8")
	w.ec2.mu.Lock()
	w.ec2.instances["i-8"], w.ec2.instances["i-9"] = elsewhere, i
	w.ec2.mu.Unlock()
	_, cs := w.planes.only()
	cs.PrependReactor("create", "subjectaccessreviews", func(a k8stesting.Action) (bool, runtime.Object, error) {
		r := a.(k8stesting.CreateAction).GetObject().(*authzv1.SubjectAccessReview).DeepCopy()
		r.Status.Allowed = slices.Contains(r.Spec.Groups, "system:nodes") && r.Spec.ResourceAttributes.Subresource == "selfnodeserver"
		return true, r, nil
	})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	requests := cs.CertificatesV1().CertificateSigningRequests()
	ask := func(name string, change func(*certsv1.CertificateSigningRequestSpec, *x509.CertificateRequest)) {
		t.Helper()
		spec := certsv1.CertificateSigningRequestSpec{
			SignerName: certsv1.KubeletServingSignerName, Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"},
			Usages: []certsv1.KeyUsage{certsv1.UsageDigitalSignature, certsv1.UsageServerAuth},
		}
		asked := &x509.CertificateRequest{
			Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
			DNSNames: []string{node, *i.PublicDnsName}, IPAddresses: []net.IP{net.IPv4(172, 31, 0, 9), net.IPv4(54, 0, 0, 9)},
		}
		change(&spec, asked)
		der, err := x509.CreateCertificateRequest(rand.Reader, asked, key)
		if err != nil {
			t.Fatal(err)
		}
		spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		if _, err := requests.Create(t.Context(), &certsv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	conditions := func(name string) []certsv1.CertificateSigningRequestCondition {
		t.Helper()
		r, err := requests.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Conditions
	}
	approved := func(name string) {
		t.Helper()
		w.eventually(func() error {
			if c := conditions(name); len(c) != 1 || c[0].Type != certsv1.CertificateApproved || c[0].Reason != "AutoApproved" {
				return fmt.Errorf("%s has the conditions %+v", name, c)
			}
			return nil
		})
	}
	ask("good", func(*certsv1.CertificateSigningRequestSpec, *x509.CertificateRequest) {})
	approved("good")

	// A Fargate node is known by its network interface, which only Fargate makes.
	fargate := func(address string) func(*certsv1.CertificateSigningRequestSpec, *x509.CertificateRequest) {
		return func(s *certsv1.CertificateSigningRequestSpec, r *x509.CertificateRequest) {
			name := "fargate-ip-" + strings.ReplaceAll(address, ".", "-") + ".ec2.internal"
			s.Username, r.Subject.CommonName = "system:node:"+name, "system:node:"+name
			r.DNSNames, r.IPAddresses = []string{name}, []net.IP{net.ParseIP(address)}
		}
	}
	w.ec2.mu.Lock()
	for address, description := range map[string]string{"172.31.0.20": "Fargate pod shop/web of cluster dev", "172.31.0.21": "something else that AWS manages"} {
		w.ec2.interfaces["eni-"+address] = ec2types.NetworkInterface{
			NetworkInterfaceId: aws.String("eni-" + address), VpcId: aws.String("vpc-main"), Description: &description, RequesterManaged: new(true),
			PrivateIpAddress: &address, PrivateDnsName: aws.String("ip-" + strings.ReplaceAll(address, ".", "-") + ".ec2.internal"),
		}
	}
	w.ec2.mu.Unlock()
	ask("fargate", fargate("172.31.0.20"))
	approved("fargate")

	pending := map[string]func(*certsv1.CertificateSigningRequestSpec, *x509.CertificateRequest){
		// awslabs/amazon-eks-ami#610: aws-auth maps the role to a name that is no node's.
		"user": func(s *certsv1.CertificateSigningRequestSpec, _ *x509.CertificateRequest) { s.Username = "test" },
		"other": func(_ *certsv1.CertificateSigningRequestSpec, r *x509.CertificateRequest) {
			r.Subject.CommonName += "x"
		},
		"group": func(s *certsv1.CertificateSigningRequestSpec, _ *x509.CertificateRequest) { s.Groups = nil },
		"name": func(_ *certsv1.CertificateSigningRequestSpec, r *x509.CertificateRequest) {
			r.DNSNames = append(r.DNSNames, "kubernetes.default.svc")
		},
		"address": func(_ *certsv1.CertificateSigningRequestSpec, r *x509.CertificateRequest) {
			r.IPAddresses = append(r.IPAddresses, net.IPv4(172, 31, 0, 10))
		},
		"VPC": func(_ *certsv1.CertificateSigningRequestSpec, r *x509.CertificateRequest) {
			r.IPAddresses = append(r.IPAddresses, net.IPv4(54, 0, 0, 8))
		},
		"Fargate interface": fargate("172.31.0.21"),
		"Fargate address": func(s *certsv1.CertificateSigningRequestSpec, r *x509.CertificateRequest) {
			fargate("172.31.0.20")(s, r)
			r.IPAddresses = append(r.IPAddresses, net.IPv4(172, 31, 0, 21))
		},
		"no instance": func(s *certsv1.CertificateSigningRequestSpec, r *x509.CertificateRequest) {
			s.Username, r.Subject.CommonName = "system:node:none", "system:node:none"
		},
	}
	for name, change := range pending {
		ask(name, change)
	}
	ask("last", func(*certsv1.CertificateSigningRequestSpec, *x509.CertificateRequest) {})
	approved("last") // one worker takes them in order
	for name := range pending {
		if c := conditions(name); len(c) > 0 {
			t.Errorf("the request with the wrong %s has the conditions %+v", name, c)
		}
	}
}
