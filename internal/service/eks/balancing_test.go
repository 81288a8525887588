package eks_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// withBalancing gives EKS load balancers, in subnets with the tags.
func withBalancing(w *world) {
	w.balancing = newBalancing(w.ec2)
	for i := range w.ec2.subnets {
		w.ec2.subnets[i].Tags = []ec2types.Tag{{Key: aws.String("kubernetes.io/role/elb"), Value: aws.String("1")}, {Key: aws.String("kubernetes.io/role/internal-elb"), Value: aws.String("1")}}
	}
}

// autoMode is the change that enables or disables EKS Auto Mode.
func autoMode(w *world, on bool) *awseks.UpdateClusterConfigInput {
	in := &awseks.UpdateClusterConfigInput{
		ComputeConfig: &ekstypes.ComputeConfigRequest{Enabled: &on}, StorageConfig: &ekstypes.StorageConfigRequest{BlockStorage: &ekstypes.BlockStorage{Enabled: &on}},
		KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigRequest{ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{Enabled: &on}},
	}
	if on {
		in.ComputeConfig.NodePools, in.ComputeConfig.NodeRoleArn = []string{"system"}, aws.String(w.arn("role/node"))
	}
	return in
}

// autoCluster creates a cluster with EKS Auto Mode.
func (w *world) autoCluster() *fake.Clientset {
	w.Helper()
	in, auto := w.createInput("dev"), autoMode(w, true)
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApi}
	in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig, in.BootstrapSelfManagedAddons = auto.ComputeConfig, auto.StorageConfig, auto.KubernetesNetworkConfig, aws.Bool(false)
	if _, err := w.client.CreateCluster(w.Context(), in); err != nil {
		w.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	return w.kubernetes()
}

// balanced returns a service with a load balancer, and the addresses of its pods.
func balanced(name string, annotations map[string]string, ports ...int32) (*corev1.Service, *discoveryv1.EndpointSlice) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: aws.String("eks.amazonaws.com/nlb")},
	}
	for k, v := range annotations {
		s.Annotations["service.beta.kubernetes.io/aws-load-balancer-"+k] = v
	}
	e := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-1", Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: name}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"172.31.0.9"}}}}
	for _, p := range ports {
		name := fmt.Sprint("p", p)
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: p, TargetPort: intstr.FromInt32(8000 + p), NodePort: 30000 + p, Protocol: corev1.ProtocolTCP})
		e.Ports = append(e.Ports, discoveryv1.EndpointPort{Name: &name, Port: aws.Int32(8000 + p)})
	}
	return s, e
}

// becomes waits until the load balancers are as described.
func (w *world) becomes(want string) {
	w.Helper()
	var got string
	w.eventually(func() error {
		if got = w.balancing.describe(); got != want {
			return fmt.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
		}
		return nil
	})
}

// eventOf waits for an event of an object.
func (w *world) eventOf(name, reason, text string) {
	w.Helper()
	w.eventually(func() error {
		all := testkit.Must(w.kubernetes().CoreV1().Events("").List(w.Context(), metav1.ListOptions{}))(w.TB.(*testing.T))
		var got []string
		for _, e := range all.Items {
			if e.InvolvedObject.Name == name && e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			got = append(got, e.InvolvedObject.Name+" "+e.Reason+" "+e.Message)
		}
		return fmt.Errorf("no event %s %s of %s in %q", reason, text, name, got)
	})
}

const oneBalancer = `balancer network internal default/web []
group default/web:80 TCP:8080 ip check    [172.31.0.9:8080] []
listener TCP 80 default/web:80 []
security group default/web [tcp:80 from 0.0.0.0/0]`

// Whatever call fails, before or after taking effect, and whenever the service restarts, load balancers end up as their objects
// want, through creation, changes and deletion.
func TestLoadBalancersSurviveAnyCrash(t *testing.T) {
	seeds := []uint64{1, 2, 3}
	if s := os.Getenv("EKS_CRASH_SEED"); s != "" {
		seeds = []uint64{testkit.Must(strconv.ParseUint(s, 10, 64))(t)}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("EKS_CRASH_SEED=%d", seed), func(t *testing.T) {
			w := newWorld(t, withClock, withBalancing)
			cs, r := w.autoCluster(), rand.New(rand.NewPCG(seed, seed))
			step := func(want string) {
				t.Helper()
				w.faults.mu.Lock()
				w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(seed, 7)), 5, 0.3
				w.faults.mu.Unlock()
				if r.IntN(2) == 0 {
					w.restart()
				}
				w.becomes(want)
				w.faults.calm()
			}
			s, e := balanced("web", nil, 80)
			testkit.Must(cs.DiscoveryV1().EndpointSlices("default").Create(t.Context(), e, metav1.CreateOptions{}))(t)
			testkit.Must(cs.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}))(t)
			step(oneBalancer)
			update := func(change func(*corev1.Service)) {
				t.Helper()
				now := testkit.Must(cs.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{}))(t)
				change(now)
				testkit.Must(cs.CoreV1().Services("default").Update(t.Context(), now, metav1.UpdateOptions{}))(t)
			}
			annotate := func(pairs ...string) {
				t.Helper()
				update(func(s *corev1.Service) {
					if s.Annotations == nil {
						s.Annotations = map[string]string{}
					}
					for i := 0; i < len(pairs); i += 2 {
						s.Annotations["service.beta.kubernetes.io/aws-load-balancer-"+pairs[i]] = pairs[i+1]
					}
				})
			}

			// Certificates and tags come.
			annotate("ssl-cert", "arn:a,arn:b,arn:c", "additional-resource-tags", "team=a,stage=x")
			step(`balancer network internal default/web [stage=x,team=a]
group default/web:80 TCP:8080 ip check    [172.31.0.9:8080] [stage=x,team=a]
listener TLS 80 default/web:80 [arn:a arn:b arn:c]
security group default/web [tcp:80 from 0.0.0.0/0] stage=x,team=a`)
			// They change and go.
			annotate("ssl-cert", "arn:a,arn:c", "additional-resource-tags", "team=b")
			step(`balancer network internal default/web [team=b]
group default/web:80 TCP:8080 ip check    [172.31.0.9:8080] [team=b]
listener TLS 80 default/web:80 [arn:a arn:c]
security group default/web [tcp:80 from 0.0.0.0/0] team=b`)
			// Another scheme, port and source; other pods.
			e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"172.31.0.10"}}, {Addresses: []string{"172.31.0.11"}}}
			name := "p81"
			e.Ports = append(e.Ports, discoveryv1.EndpointPort{Name: &name, Port: aws.Int32(8081)})
			testkit.Must(cs.DiscoveryV1().EndpointSlices("default").Update(t.Context(), e, metav1.UpdateOptions{}))(t)
			update(func(s *corev1.Service) {
				s.Annotations = map[string]string{"service.beta.kubernetes.io/aws-load-balancer-scheme": "internet-facing"}
				s.Spec.LoadBalancerSourceRanges = []string{"10.1.2.3/16"}
				s.Spec.Ports[0].Name, s.Spec.Ports[0].Port, s.Spec.Ports[0].TargetPort = "p81", 81, intstr.FromInt32(8081)
			})
			step(`balancer network internet-facing default/web []
group default/web:81 TCP:8081 ip check    [172.31.0.10:8081 172.31.0.11:8081] []
listener TCP 81 default/web:81 []
security group default/web [tcp:81 from 10.1.0.0/16]`)
			before := w.balancing.changes
			w.fake.Step(2 * time.Minute)
			w.eventOf("web", "SuccessfullyReconciled", "")
			if w.balancing.changes != before {
				t.Errorf("%d changes of a load balancer that is as it should be", w.balancing.changes-before)
			}

			update(func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: w.fake.Now()} })
			step("")
			w.eventually(func() error {
				if s, err := cs.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{}); err == nil && len(s.Finalizers) > 0 {
					return fmt.Errorf("finalizers %q", s.Finalizers)
				}
				return nil
			})
			if n := len(w.clusterGroupPermissions()); n > 1 {
				t.Errorf("%d permissions of the cluster security group are left", n)
			}
		})
	}
}

// clusterGroupPermissions returns the permissions of the cluster security group.
func (w *world) clusterGroupPermissions() []ec2types.IpPermission {
	c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.ec2.mu.Lock()
	defer w.ec2.mu.Unlock()
	return w.ec2.groups[*c.ResourcesVpcConfig.ClusterSecurityGroupId].IpPermissions
}

// useGroups makes a network interface use the security groups of load balancers, until free.
func (w *world) useGroups() (free func()) {
	busy := ec2types.NetworkInterface{NetworkInterfaceId: aws.String("eni-busy"), VpcId: aws.String("vpc-other"), SubnetId: aws.String("subnet-other")}
	w.ec2.mu.Lock()
	defer w.ec2.mu.Unlock()
	for id, g := range w.ec2.groups {
		if *g.GroupName != "mine" && !strings.HasPrefix(*g.GroupName, "eks-cluster-sg") {
			busy.Groups = append(busy.Groups, ec2types.GroupIdentifier{GroupId: &id})
		}
	}
	w.ec2.interfaces["eni-busy"] = busy
	return func() {
		w.ec2.mu.Lock()
		defer w.ec2.mu.Unlock()
		delete(w.ec2.interfaces, "eni-busy")
	}
}

// A load balancer that is refused, or that cannot be deleted, is retried with an event, and holds nothing else up.
func TestLoadBalancersThatAreRefused(t *testing.T) {
	w := newWorld(t, withClock, withBalancing)
	cs := w.autoCluster()
	add := func(name string, annotations map[string]string) {
		t.Helper()
		s, e := balanced(name, annotations, 80)
		testkit.Must(cs.DiscoveryV1().EndpointSlices("default").Create(t.Context(), e, metav1.CreateOptions{}))(t)
		testkit.Must(cs.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}))(t)
	}
	end := func(name string) {
		t.Helper()
		s := testkit.Must(cs.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{}))(t)
		s.DeletionTimestamp = &metav1.Time{Time: w.fake.Now()}
		testkit.Must(cs.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{}))(t)
	}
	held := func(name string) bool {
		s, err := cs.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && len(s.Finalizers) > 0
	}
	released := func(name string) {
		t.Helper()
		w.eventually(func() error {
			if held(name) {
				return errors.New(name + " is held")
			}
			return nil
		})
	}

	// IAM denies, an annotation is unknown, the role is broken.
	w.balancing.deny("CreateLoadBalancer", awserr.New("AccessDenied", "is not authorized to perform: elasticloadbalancing:CreateLoadBalancer"))
	add("denied", nil)
	w.eventOf("denied", "FailedDeployModel", "not authorized to perform: elasticloadbalancing:CreateLoadBalancer")
	if notes := strings.Join(w.updateNotes(), "\n"); !strings.Contains(notes, "load balancer of the Service default/denied is not ready: FailedDeployModel: ") {
		t.Errorf("drydock why cluster says %s", notes)
	}
	add("odd", map[string]string{"eip-allocations": "eipalloc-1"})
	w.eventOf("odd", "FailedBuildModel", "eip-allocations is not supported")
	end("odd")
	released("odd")
	w.auto.setDeny(errors.New("assuming the cluster role: AccessDenied"))
	end("denied") // it has a security group, which EKS may delete without the role
	released("denied")
	w.auto.setDeny(nil)
	w.balancing.deny("CreateLoadBalancer", nil)
	w.becomes("")

	// Deletion protection.
	add("web", nil)
	w.becomes(oneBalancer)
	w.balancing.deny("DeleteLoadBalancer", awserr.New("OperationNotPermitted", "Load balancer cannot be deleted because deletion protection is enabled"))
	end("web")
	w.eventOf("web", "FailedCleanup", "deletion protection is enabled")
	add("api", nil) // and others go on
	w.eventOf("api", "SuccessfullyReconciled", "")
	if !held("web") {
		t.Error("the object is gone before its load balancer")
	}
	w.balancing.deny("DeleteLoadBalancer", nil)
	released("web")

	// Something uses the security group.
	free := w.useGroups()
	end("api")
	w.eventOf("api", "FailedCleanup", "dependent object")
	free()
	released("api")
	w.becomes("")

	// The managed policy does not allow changed tags: an event says so, and the rest of the change is made.
	add("tagged", nil)
	w.eventOf("tagged", "SuccessfullyReconciled", "")
	w.balancing.deny("AddTags", awserr.New("AccessDenied", "is not authorized to perform: elasticloadbalancing:AddTags"))
	w.balancing.deny("CreateTags", awserr.New("UnauthorizedOperation", "is not authorized to perform: ec2:CreateTags"))
	s := testkit.Must(cs.CoreV1().Services("default").Get(t.Context(), "tagged", metav1.GetOptions{}))(t)
	s.Annotations = map[string]string{"service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags": "team=a", "service.beta.kubernetes.io/aws-load-balancer-scheme": "internet-facing"}
	s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
	testkit.Must(cs.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{}))(t)
	w.eventOf("tagged", "FailedDeployModel", "elasticloadbalancing:AddTags")
	w.eventOf("tagged", "FailedDeployModel", "ec2:CreateTags")
	if d := w.balancing.describe(); !strings.Contains(d, "[tcp:80 from 10.0.0.0/8]") {
		t.Error(d)
	}
	before := s.Status.LoadBalancer.Ingress[0].Hostname
	w.eventually(func() error { // the new load balancer's
		s, err := cs.CoreV1().Services("default").Get(t.Context(), "tagged", metav1.GetOptions{})
		if err == nil && s.Status.LoadBalancer.Ingress[0].Hostname == before {
			err = errors.New(before)
		}
		return err
	})

	// With externalTrafficPolicy Local, instances answer whether they have a pod.
	s = testkit.Must(cs.CoreV1().Services("default").Get(t.Context(), "tagged", metav1.GetOptions{}))(t)
	s.Annotations = map[string]string{"service.beta.kubernetes.io/aws-load-balancer-nlb-target-type": "instance"}
	s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31000
	testkit.Must(cs.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{}))(t)
	w.eventually(func() error {
		if d := w.balancing.describe(); !strings.Contains(d, "TCP:30080 instance check HTTP 31000 /healthz") {
			return errors.New(d)
		}
		return nil
	})

	// A cluster goes in spite of a protected load balancer, which is left.
	w.balancing.deny("DeleteLoadBalancer", awserr.New("OperationNotPermitted", "deletion protection is enabled"))
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")}); err != nil {
		t.Fatal(err)
	}
	w.waitGone("dev")
	if d := w.balancing.describe(); !strings.Contains(d, "balancer network") {
		t.Errorf("left: %s", d)
	}
}

// ingress makes the Ingress shop, which leads to the Service web, and its class.
func (w *world) ingress(cs *fake.Clientset) {
	t := w.TB
	t.Helper()
	testkit.Must(cs.NetworkingV1().IngressClasses().Create(t.Context(), &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "alb"}, Spec: networkingv1.IngressClassSpec{Controller: "eks.amazonaws.com/alb"}}, metav1.CreateOptions{}))(t)
	testkit.Must(cs.NetworkingV1().Ingresses("default").Create(t.Context(), &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default", UID: "uid-shop"}, Spec: networkingv1.IngressSpec{
		IngressClassName: aws.String("alb"), Rules: []networkingv1.IngressRule{{Host: "shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
			{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}},
		}}}}},
	}}, metav1.CreateOptions{}))(t)
}

// What keeps an Ingress from its load balancer is explained, as for Services.
func TestIngressThatIsRefused(t *testing.T) {
	w := newWorld(t, withClock, withBalancing)
	cs := w.autoCluster()
	w.balancing.deny("CreateLoadBalancer", awserr.New("AccessDenied", "is not authorized to perform: elasticloadbalancing:CreateLoadBalancer"))
	s, e := balanced("web", nil, 80)
	s.Spec.LoadBalancerClass = nil
	testkit.Must(cs.DiscoveryV1().EndpointSlices("default").Create(t.Context(), e, metav1.CreateOptions{}))(t)
	testkit.Must(cs.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}))(t)
	w.ingress(cs)
	w.eventually(func() error {
		notes := strings.Join(w.updateNotes(), "\n")
		if !strings.Contains(notes, "load balancer of the Ingress default/shop is not ready: FailedDeployModel: ") || strings.Contains(notes, "default/web") {
			return fmt.Errorf("drydock why cluster says %q", notes)
		}
		return nil
	})
}

// Ingresses get their rules. Disabling ends the load balancers, the finalizers and the watches.
func TestLoadBalancersEndWithAutoMode(t *testing.T) {
	w := newWorld(t, withClock, withBalancing)
	cs := w.autoCluster()
	var open watches
	cs.PrependWatchReactor("services", open.react(cs))
	w.restart() // the watches are those of this process
	s, e := balanced("web", nil, 80)
	testkit.Must(cs.DiscoveryV1().EndpointSlices("default").Create(t.Context(), e, metav1.CreateOptions{}))(t)
	testkit.Must(cs.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}))(t)
	w.ingress(cs)
	w.becomes(`balancer application internal default/shop []
balancer network internal default/web []
group default/web:80 HTTP:8080 ip check    [172.31.0.9:8080] []
group default/web:80 TCP:8080 ip check    [172.31.0.9:8080] []
listener HTTP 80  []
listener TCP 80 default/web:80 []
rule 1 default/web:80
security group default/shop [tcp:80 from 0.0.0.0/0]
security group default/web [tcp:80 from 0.0.0.0/0]`)
	if open.count() == 0 {
		t.Fatal("nothing watches services")
	}
	free := w.useGroups() // as the interfaces of load balancers do for a while after their deletion
	if _, err := w.update(autoMode(w, false)); err != nil {
		t.Fatal(err)
	}
	w.eventually(func() error {
		w.ec2.mu.Lock()
		defer w.ec2.mu.Unlock()
		if w.ec2.refused < 2 {
			return fmt.Errorf("%d attempts", w.ec2.refused)
		}
		return nil
	})
	free()
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.becomes("")
	now := testkit.Must(cs.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{}))(t)
	if len(now.Finalizers) > 0 || len(now.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("%q %v", now.Finalizers, now.Status.LoadBalancer)
	}
	w.eventually(func() error {
		if n := open.count(); n != 0 {
			return fmt.Errorf("%d watches of services are open", n)
		}
		return nil
	})
	if _, err := w.update(autoMode(w, true)); err != nil {
		t.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.eventually(func() error {
		if d := w.balancing.describe(); !slices.Contains(strings.Split(d, "\n"), "balancer network internal default/web []") {
			return errors.New(d)
		}
		return nil
	})
}

// watches counts watches that have not been stopped.
type watches struct{ n atomic.Int32 }

func (o *watches) count() int32 { return o.n.Load() }

func (o *watches) react(cs *fake.Clientset) k8stesting.WatchReactionFunc {
	return func(a k8stesting.Action) (bool, watch.Interface, error) {
		wi, err := cs.Tracker().Watch(a.GetResource(), a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		o.n.Add(1)
		return true, &countedWatch{Interface: wi, of: o}, nil
	}
}

type countedWatch struct {
	watch.Interface
	of   *watches
	once sync.Once
}

func (c *countedWatch) Stop() {
	c.once.Do(func() { c.of.n.Add(-1) })
	c.Interface.Stop()
}
