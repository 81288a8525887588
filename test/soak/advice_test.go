package soak

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsservicequotas "github.com/aws/aws-sdk-go-v2/service/servicequotas"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/machine/guest/paste"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// lanes is how many plights are looked at at once: each waits most of the time.
const lanes = 8

// TestPrintedFixesHold breaks nodes by their identity, permissions and user data, pods by
// images, quotas and what they refer to, and service accounts by their roles. It asks why,
// runs the first fix as it is printed until nothing is left to fix, and looks whether that
// has mended it and left the bystanders alone. Where only a person knows what was meant, a
// fix is not possible, and none may be printed that can be pasted.
//
// DRYDOCK_WORLDS is how many there are, DRYDOCK_SEED the first one's number. Networks and
// permissions of users are internal/app's.
func TestPrintedFixesHold(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	count, seed := 40, uint64(1)
	if s := os.Getenv("DRYDOCK_WORLDS"); s != "" {
		count = must(strconv.Atoi(s))(t)
	}
	if s := os.Getenv("DRYDOCK_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 10, 64))(t)
	}
	w := &plights{world: newWorld(t, plan{nodes: 5})}
	type tally struct{ broken, possible, offered, held int }
	var sum tally
	var played int
	kinds := map[string]*tally{}
	var mu sync.Mutex
	pods, nodes, groups := make(chan uint64, count), make(chan uint64, count), make(chan uint64, count)
	for n := range uint64(count) {
		switch n += seed; {
		case n%25 == 7:
			groups <- n
		case n%5 < 2:
			nodes <- n
		default:
			pods <- n
		}
	}
	close(pods)
	close(nodes)
	close(groups)
	play := func(lanes int, numbers <-chan uint64, ways []func(context.Context, string, *rand.Rand) (*plight, error)) {
		var all sync.WaitGroup
		for range lanes {
			all.Go(func() {
				for n := range numbers {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
					p, r, err := w.play(ctx, n, ways)
					cancel()
					mu.Lock()
					if errors.Is(err, errWhole) {
						mu.Unlock()
						continue
					}
					if kinds[p.kind] == nil {
						kinds[p.kind] = &tally{}
					}
					of := kinds[p.kind]
					of.broken++
					if p.possible {
						of.possible++
					}
					if r.offered {
						of.offered++
					}
					switch {
					case err != nil:
						t.Errorf("DRYDOCK_SEED=%d, %s: %v\n%s", n, p.about, err, strings.Join(r.ran, "\n"))
					case r.offered:
						of.held++
					case p.possible:
						t.Logf("DRYDOCK_SEED=%d, %s: nothing is offered", n, p.about)
					}
					if played++; played%100 == 0 { // a long run that is cut short has figures, too
						var now tally
						for _, of := range kinds {
							now = tally{now.broken + of.broken, now.possible + of.possible, now.offered + of.offered, now.held + of.held}
						}
						t.Logf("so far %d worlds were broken; a fix was possible for %d, offered for %d, and held for %d", now.broken, now.possible, now.offered, now.held)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
	}
	// One after the other: pods would be placed on nodes that are about to go.
	type ways = []func(context.Context, string, *rand.Rand) (*plight, error)
	play(1, groups, ways{w.vcpuPlight}) // they share the quotas of the account
	play(lanes, pods, ways{w.podPlight, w.podPlight, w.quotaPlight, w.serviceAccountPlight})
	play(lanes, nodes, ways{w.nodePlight, w.nodePlight, w.nodePlight, w.imagePlight})
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		of := kinds[kind]
		t.Logf("%s: %d broken, %d possible, %d offered, %d held", kind, of.broken, of.possible, of.offered, of.held)
		sum.broken, sum.possible, sum.offered, sum.held = sum.broken+of.broken, sum.possible+of.possible, sum.offered+of.offered, sum.held+of.held
	}
	t.Logf("%d worlds were broken; a fix was possible for %d, offered for %d, and held for %d", sum.broken, sum.possible, sum.offered, sum.held)
}

type plights struct {
	*world
	mapping sync.Mutex // fixes of aws-auth are made of what it was
}

// A plight is something that does not work, and how to ask about it.
type plight struct {
	kind     string
	about    string
	possible bool // without knowing what was meant
	once     bool // the first fix must do
	// One of these is asked about.
	node           string // an instance
	nodegroup      string
	pod            string // in the namespace, or its Deployment
	serviceAccount string
	namespace      string
	// whole, if not nil, says what is missing although the answer is that all is well.
	whole func(ctx context.Context) error
	// bystander says what no longer works that did.
	bystander func(ctx context.Context) error
	// undo takes away what others could stumble over.
	undo func(ctx context.Context)
}

type result struct {
	offered bool
	ran     []string
}

// An answer is what `drydock why` says, as far as it matters here.
type answer struct {
	done  bool
	fixes []advice.Fix
	says  string
}

func (w *plights) ask(ctx context.Context, p *plight) (answer, error) {
	daemon, place := &api.Client{Daemon: w.DaemonInfo}, api.Place{Region: "us-east-1"}
	of := func(steps []api.Step, done bool, says string) answer {
		a := answer{done: done, says: says}
		for _, s := range steps {
			if s.State == api.StepFailed && s.Reason != nil && len(s.Reason.Fixes) > 0 {
				a.fixes = s.Reason.Fixes
				break
			}
		}
		return a
	}
	switch {
	case p.nodegroup != "":
		e, err := daemon.WhyNodes(ctx, place, cluster, p.nodegroup)
		a := answer{fixes: e.Fixes, says: e.Text()}
		if err == nil {
			a.done = e.Status == "ACTIVE" && len(e.Issues) == 0 && p.whole(ctx) == nil
		}
		return a, err
	case p.node != "":
		e, err := daemon.WhyNode(ctx, place, p.node)
		return of(e.Steps, e.Ready, e.Text()), err
	case p.pod != "":
		e, err := daemon.WhyPod(ctx, place, cluster, p.namespace, p.pod)
		if err != nil {
			return answer{says: err.Error()}, nil // nothing has tried to make it yet
		}
		a := of(e.Steps, e.Running && e.FirstFailed() == nil, e.Text())
		if a.done && p.whole != nil {
			if err := p.whole(ctx); err != nil {
				a.done, a.says = false, err.Error()
			}
		}
		return a, nil
	}
	e, err := daemon.WhyServiceAccount(ctx, place, cluster, p.namespace, p.serviceAccount)
	broken := e.Broken()
	if err != nil || broken == nil {
		return answer{done: err == nil, says: e.Text()}, err
	}
	return answer{fixes: broken.Fixes, says: e.Text()}, nil
}

// settle asks until all is well, or until there is a fix that has not been run.
func (w *plights) settle(ctx context.Context, p *plight, ran []string, patience time.Duration) (a answer, err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); pause(200 * time.Millisecond) {
		a, err = w.ask(ctx, p)
		if err != nil || a.done {
			return a, err
		}
		if len(a.fixes) == 0 || p.possible && a.fixes[0].Sketch != "" { // addresses of pods that have ended come back by themselves
			continue
		}
		if len(ran) == 0 || ran[len(ran)-1] != a.fixes[0].Shell() {
			return a, nil
		}
	}
	return a, nil
}

// errWhole says that nothing is broken: another policy may allow what is missing.
var errWhole = errors.New("nothing is broken")

var launched = regexp.MustCompile(`"InstanceId": "(i-[0-9a-f]+)"`)

// play breaks something and fixes it by what is printed.
func (w *plights) play(ctx context.Context, n uint64, ways []func(context.Context, string, *rand.Rand) (*plight, error)) (*plight, result, error) {
	r := rand.New(rand.NewPCG(n, 47))
	p, err := ways[r.IntN(len(ways))](ctx, fmt.Sprintf("w%d", n), r)
	var res result
	if err != nil {
		return p, res, err
	}
	defer func() {
		if p.undo != nil {
			p.undo(context.WithoutCancel(ctx))
		}
	}()
	for {
		patience := time.Minute
		if len(res.ran) > 0 { // controllers try again less and less often
			patience = 3 * time.Minute
		}
		a, err := w.settle(ctx, p, res.ran, patience)
		switch {
		case err != nil:
			return p, res, err
		case a.done && len(res.ran) == 0:
			return p, res, errWhole
		case a.done:
			if p.bystander != nil {
				err = p.bystander(ctx)
			}
			if err == nil && p.once && len(res.ran) > 1 {
				err = errors.New("the first fix was not enough")
			}
			return p, res, err
		case len(a.fixes) == 0 || a.fixes[0].Sketch != "":
			if len(res.ran) > 0 {
				return p, res, fmt.Errorf("it is not mended:\n%s", a.says)
			}
			return p, res, nil
		case !p.possible:
			return p, res, fmt.Errorf("only a person knows what was meant, and this is printed: %s", a.fixes[0].Shell())
		case len(res.ran) == 8 || len(res.ran) > 0 && res.ran[len(res.ran)-1] == a.fixes[0].Shell():
			return p, res, fmt.Errorf("the fix does not work:\n%s", a.says)
		}
		res.offered = true
		if err := w.run(ctx, p, &res); err != nil {
			return p, res, err
		}
	}
}

// run asks once more and runs the first fix as it is printed.
func (w *plights) run(ctx context.Context, p *plight, res *result) error {
	w.mapping.Lock()
	defer w.mapping.Unlock()
	a, err := w.ask(ctx, p)
	if err != nil || len(a.fixes) == 0 || a.fixes[0].Sketch != "" { // something else is in the way now
		return err
	}
	sh := paste.Shell{
		URL: w.URL, Kubectl: w.kubectl,
		Env: []string{"AWS_ACCESS_KEY_ID=000000000000", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=eu-central-1"},
	}
	res.ran = append(res.ran, a.fixes[0].Shell())
	out, ok, err := sh.Run(ctx, a.fixes[0].Shell())
	if err != nil || !ok {
		return fmt.Errorf("running it: %v\n%s", err, out)
	}
	if m := launched.FindStringSubmatch(out); m != nil && p.node != "" {
		p.node = m[1] // what is terminated comes after it
	}
	return nil
}

// kubectl runs the program's own.
func (w *plights) kubectl(ctx context.Context, c *shell.Call) int {
	cmd := exec.CommandContext(ctx, w.bin, append([]string{"kubectl"}, c.Args[1:]...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(w.dir, "kubeconfig"), "DRYDOCK_DATA_DIR="+w.dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}

const (
	trustEC2 = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	trustECS = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ecs-tasks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
)

// nodePlight launches a node whose role, access entry or user data is wrong.
func (w *plights) nodePlight(ctx context.Context, name string, r *rand.Rand) (*plight, error) {
	p := &plight{kind: "identity", about: "node", possible: true, once: true}
	did := func(what string) { p.about += ", " + what }
	iam, role := awsiam.NewFromConfig(w.config()), "arn:aws:iam::000000000000:role/"+name
	trust := trustEC2
	if r.IntN(6) == 0 {
		trust = trustECS
		did("its role trusts another service")
	}
	create := func() error {
		_, err := iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust})
		return err
	}
	if err := create(); err != nil {
		return p, err
	}
	entry := awseks.CreateAccessEntryInput{ClusterName: aws.String(cluster), PrincipalArn: &role, Type: aws.String("EC2_LINUX")}
	switch identity := r.IntN(4); identity {
	case 0:
		did("the cluster does not know its role")
	case 1, 2, 3:
		if identity == 1 {
			entry.Type = aws.String("STANDARD")
			did("its access entry is a person's")
		}
		if _, err := w.eks.CreateAccessEntry(ctx, &entry); err != nil {
			return p, err
		}
		if identity == 2 { // the entry is that of the first role's ID
			did("its role was deleted and created again")
			if _, err := iam.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: &name}); err != nil {
				return p, err
			}
			if err := create(); err != nil {
				return p, err
			}
		}
	}
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"} {
		if r.IntN(4) == 0 {
			did("its role lacks " + policy)
			continue
		}
		if _, err := iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: &name, PolicyArn: aws.String("arn:aws:iam::aws:policy/" + policy)}); err != nil {
			return p, err
		}
	}
	if err := w.profile(ctx, name); err != nil {
		return p, err
	}
	in := w.nodeOf(name)
	in.SubnetId = &w.subnets[r.IntN(len(w.subnets))]
	data, err := base64.StdEncoding.DecodeString(w.userData)
	if err != nil {
		return p, err
	}
	switch r.IntN(8) {
	case 0:
		did("its user data names another cluster")
		data = bytes.Replace(data, []byte("name: "+cluster), []byte("name: elsewhere"), 1)
	case 1:
		did("its metadata service is off")
		in.MetadataOptions = &ec2types.InstanceMetadataOptionsRequest{HttpEndpoint: ec2types.InstanceMetadataEndpointStateDisabled}
	case 2:
		did("its user data cannot be read")
		p.possible, data = false, []byte("cluster: [\n")
	default:
		if p.about == "node" {
			did("its role trusts another service")
			if _, err := iam.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: &name, PolicyDocument: aws.String(trustECS)}); err != nil {
				return p, err
			}
			trust = trustECS
		}
	}
	if !p.possible { // the rest would come before it, or after it
		p.about = "node, its user data cannot be read"
		if _, err := iam.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: &name, PolicyDocument: aws.String(trustEC2)}); err != nil {
			return p, err
		}
		trust = trustEC2
	}
	in.UserData = aws.String(base64.StdEncoding.EncodeToString(data))
	out, err := w.ec2.RunInstances(ctx, &in)
	if err != nil {
		return p, err
	}
	p.node = *out.Instances[0].InstanceId
	p.bystander = func(ctx context.Context) error { // who else may assume the role, and the nodes that were there
		got, err := iam.GetRole(ctx, &awsiam.GetRoleInput{RoleName: &name})
		if err != nil {
			return err
		}
		if trust == trustECS && !strings.Contains(aws.ToString(got.Role.AssumeRolePolicyDocument), "ecs-tasks") {
			return errors.New("the service that the role trusted may no longer assume it")
		}
		return w.groupReady(ctx)
	}
	p.undo = func(ctx context.Context) {
		_, _ = w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{p.node}}) // a leftover harms nobody
	}
	return p, nil
}

// groupReady says which of the node group's nodes is not Ready.
func (w *plights) groupReady(ctx context.Context) error {
	nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "eks.amazonaws.com/nodegroup=group"})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		if !ready(&nodes.Items[i]) {
			return fmt.Errorf("node %s is no longer Ready", nodes.Items[i].Name)
		}
	}
	return nil
}

// in makes a namespace with a Deployment that works, and returns a plight in it.
func (w *plights) in(ctx context.Context, name string) (*plight, error) {
	p := &plight{kind: "pods", possible: true, namespace: name, undo: func(ctx context.Context) {
		_ = w.kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}) // a leftover harms nobody
	}}
	if _, err := w.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return p, err
	}
	if err := w.deployment(ctx, name, "bystander", 1, nil); err != nil {
		return p, err
	}
	p.bystander = w.available(name, "bystander", 1)
	for p.bystander(ctx) != nil {
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		pause(100 * time.Millisecond)
	}
	return p, nil
}

func (w *plights) available(namespace, name string, replicas int32) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		d, err := w.kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas < replicas {
			err = fmt.Errorf("Deployment %s has %d of %d pods", name, d.Status.AvailableReplicas, replicas)
		}
		return err
	}
}

func (w *plights) deployment(ctx context.Context, namespace, name string, replicas int32, change func(*corev1.PodSpec)) error {
	labels := map[string]string{"app": name}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "public.ecr.aws/docker/library/busybox:latest"}}, TerminationGracePeriodSeconds: aws.Int64(1)}
	if change != nil {
		change(&spec)
	}
	_, err := w.kube.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	return err
}

// podPlight has a Deployment refer to what is not there, want what no node has, or name an
// image that nobody gets.
func (w *plights) podPlight(ctx context.Context, name string, r *rand.Rand) (*plight, error) {
	p, err := w.in(ctx, name)
	if err != nil {
		return p, err
	}
	p.pod, p.about = "web", "pod"
	var change func(*corev1.PodSpec)
	wrong := func(what string, possible bool, f func(*corev1.PodSpec)) {
		p.about, p.possible, change = "pod, "+what, possible, f
	}
	reference := corev1.LocalObjectReference{Name: "settings"}
	switch r.IntN(10) {
	case 0:
		wrong("its service account does not exist", true, func(s *corev1.PodSpec) { s.ServiceAccountName = "web" })
	case 1:
		wrong("no node has its label", true, func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"plight": name} })
		gone := p.undo
		p.undo = func(ctx context.Context) {
			gone(ctx)
			nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "plight=" + name})
			for i := 0; err == nil && i < len(nodes.Items); i++ {
				_, err = w.kube.CoreV1().Nodes().Patch(ctx, nodes.Items[i].Name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"plight":null}}}`), metav1.PatchOptions{})
			}
		}
	case 2:
		wrong("its ConfigMap does not exist", true, func(s *corev1.PodSpec) {
			s.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference}}}
		})
	case 3:
		wrong("its Secret does not exist", true, func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "settings"}}}}
		})
	case 4:
		wrong("a key of its ConfigMap does not exist", false, func(s *corev1.PodSpec) {
			s.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: reference, Key: "x"}}}}
		})
	case 5:
		wrong("its claim is not bound", true, func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		})
		_, err = w.kube.CoreV1().PersistentVolumeClaims(name).Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: aws.String([]string{"", "none"}[r.IntN(2)]),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}, metav1.CreateOptions{})
	case 6:
		wrong("its namespace enforces restricted pods", true, func(s *corev1.PodSpec) { s.HostNetwork = true })
		_, err = w.kube.CoreV1().Namespaces().Patch(ctx, name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`), metav1.PatchOptions{})
	case 7:
		p.kind = "images"
		wrong("its image has no valid name", false, func(s *corev1.PodSpec) { s.Containers[0].Image = "Web:1" })
	case 8:
		p.kind = "images"
		wrong("its image is not on the node and may not be pulled", true, func(s *corev1.PodSpec) {
			s.Containers[0].Image, s.Containers[0].ImagePullPolicy = "public.ecr.aws/docker/library/busybox:"+name, corev1.PullNever
		})
	case 9:
		wrong("it wants more than any node has", false, func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}
		})
	}
	if err != nil {
		return p, err
	}
	replicas := int32(1)
	if p.possible && r.IntN(2) == 0 {
		replicas = 2
	}
	p.whole = w.available(name, "web", replicas)
	return p, w.deployment(ctx, name, "web", replicas, change)
}

// quotaPlight has a Deployment want more than its namespace may have.
func (w *plights) quotaPlight(ctx context.Context, name string, r *rand.Rand) (*plight, error) {
	p, err := w.in(ctx, name)
	if err != nil {
		return p, err
	}
	replicas := int32(1 + r.IntN(3))
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")} // the bystander's
	p.about = "pod, the quota of pods is used up"
	if r.IntN(2) == 0 {
		p.about = "pod, the quota of CPU is used up"
		hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("20m"), corev1.ResourceLimitsMemory: resource.MustParse("1Gi")}
	}
	_, err = w.kube.CoreV1().ResourceQuotas(name).Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	if err != nil {
		return p, err
	}
	p.pod = "web"
	p.kind, p.once, p.whole = "quotas", true, w.available(name, "web", replicas)
	return p, w.deployment(ctx, name, "web", replicas, func(s *corev1.PodSpec) {
		s.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("30m")}, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		}
	})
}

// vcpuPlight has a managed node group want more instances than the quota of its type allows.
func (w *plights) vcpuPlight(ctx context.Context, name string, r *rand.Rand) (*plight, error) {
	// Of different quotas. They stay raised, so that the next group has to want more.
	types := []struct {
		name, quota string
		vcpus       int
	}{{"u7in-16tb.224xlarge", "L-43DA4232", 896}, {"f2.48xlarge", "L-74FC7D96", 192}, {"x1.32xlarge", "L-7295265B", 128}}
	typ := types[r.IntN(len(types))]
	p := &plight{kind: "quotas", about: "node group, the quota of " + typ.name + " is used up", possible: true, once: true, bystander: w.groupReady}
	q, err := awsservicequotas.NewFromConfig(w.config()).GetServiceQuota(ctx, &awsservicequotas.GetServiceQuotaInput{ServiceCode: aws.String("ec2"), QuotaCode: &typ.quota})
	if err != nil {
		return p, err
	}
	count := int32(int(*q.Quota.Value)/typ.vcpus + 1 + r.IntN(2))
	_, err = w.eks.CreateNodegroup(ctx, &awseks.CreateNodegroupInput{
		ClusterName: aws.String(cluster), NodegroupName: &name, NodeRole: aws.String("arn:aws:iam::000000000000:role/node"), Subnets: w.subnets, InstanceTypes: []string{typ.name},
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), DesiredSize: &count, MaxSize: &count},
	})
	p.nodegroup = name
	p.whole = func(ctx context.Context) error {
		nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "eks.amazonaws.com/nodegroup=" + name})
		if err == nil && len(nodes.Items) != int(count) {
			err = fmt.Errorf("%d of %d nodes", len(nodes.Items), count)
		}
		return err
	}
	p.undo = func(ctx context.Context) {
		group := awseks.DescribeNodegroupInput{ClusterName: aws.String(cluster), NodegroupName: &name}
		if _, err := w.eks.DeleteNodegroup(ctx, &awseks.DeleteNodegroupInput{ClusterName: group.ClusterName, NodegroupName: &name}); err == nil {
			_ = awseks.NewNodegroupDeletedWaiter(w.eks, func(o *awseks.NodegroupDeletedWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second }).
				Wait(ctx, &group, 2*time.Minute) // a leftover uses up the quota, which the next group sees
		}
	}
	return p, err
}

// imagePlight has the role of a node lose the permission to pull images, before a pod needs one.
func (w *plights) imagePlight(ctx context.Context, name string, _ *rand.Rand) (*plight, error) {
	p := &plight{kind: "images", about: "pod, its node may not pull its image", possible: true, namespace: "default", pod: name}
	iam, role := awsiam.NewFromConfig(w.config()), "arn:aws:iam::000000000000:role/"+name
	if _, err := iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(trustEC2)}); err != nil {
		return p, err
	}
	registry := aws.String("arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly")
	for _, policy := range []string{"arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy", *registry} {
		if _, err := iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: &name, PolicyArn: &policy}); err != nil {
			return p, err
		}
	}
	if _, err := w.eks.CreateAccessEntry(ctx, &awseks.CreateAccessEntryInput{ClusterName: aws.String(cluster), PrincipalArn: &role, Type: aws.String("EC2_LINUX")}); err != nil {
		return p, err
	}
	in := w.nodeOf(name)
	if err := w.profile(ctx, name); err != nil {
		return p, err
	}
	out, err := w.ec2.RunInstances(ctx, &in)
	if err != nil {
		return p, err
	}
	id, host := *out.Instances[0].InstanceId, *out.Instances[0].PrivateDnsName
	p.undo = func(ctx context.Context) { // leftovers harm nobody
		_ = w.kube.AppsV1().Deployments("default").Delete(ctx, name, metav1.DeleteOptions{})
		_, _ = w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}})
	}
	for began := time.Now(); ; pause(200 * time.Millisecond) {
		if n, err := w.kube.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{}); err == nil && ready(n) {
			break
		}
		if time.Since(began) > 2*time.Minute {
			return p, errors.New("its node is not Ready")
		}
	}
	if _, err := iam.DetachRolePolicy(ctx, &awsiam.DetachRolePolicyInput{RoleName: &name, PolicyArn: registry}); err != nil {
		return p, err
	}
	p.whole, p.bystander = w.available("default", name, 1), w.groupReady
	return p, w.deployment(ctx, "default", name, 1, func(s *corev1.PodSpec) {
		s.NodeSelector = map[string]string{corev1.LabelHostname: host}
		s.Containers[0].Image = "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/pause:" + name
	})
}

// profile gives a role an instance profile of its name.
func (w *plights) profile(ctx context.Context, role string) error {
	iam := awsiam.NewFromConfig(w.config())
	if _, err := iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: &role}); err != nil {
		return err
	}
	_, err := iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: &role, RoleName: &role})
	return err
}

// nodeOf launches a node with an instance profile.
func (w *plights) nodeOf(profile string) awsec2.RunInstancesInput {
	return awsec2.RunInstancesInput{
		ImageId: &w.image, InstanceType: ec2types.InstanceTypeM5Large, SubnetId: &w.subnets[0], UserData: &w.userData,
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: &profile},
	}
}

// serviceAccountPlight has a service account lack the role that its annotation names, or
// the role trust others.
func (w *plights) serviceAccountPlight(ctx context.Context, name string, r *rand.Rand) (*plight, error) {
	p, err := w.in(ctx, name)
	if err != nil {
		return p, err
	}
	p.kind, p.serviceAccount, p.about, p.once = "identity", "shop", "service account", true
	iam := awsiam.NewFromConfig(w.config())
	described, err := w.eks.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: aws.String(cluster)})
	if err != nil {
		return p, err
	}
	issuer := *described.Cluster.Identity.Oidc.Issuer
	host := strings.TrimPrefix(issuer, "https://")
	statement := func(subject string) string {
		b, _ := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{ // strings always encode
			"Effect": "Allow", "Principal": map[string]string{"Federated": "arn:aws:iam::000000000000:oidc-provider/" + host}, "Action": "sts:AssumeRoleWithWebIdentity",
			"Condition": map[string]any{"StringEquals": map[string]string{host + ":aud": "sts.amazonaws.com", host + ":sub": "system:serviceaccount:" + name + ":" + subject}},
		}}})
		return string(b)
	}
	_, err = iam.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: &issuer, ClientIDList: []string{"sts.amazonaws.com"}})
	if err != nil && !strings.Contains(err.Error(), "EntityAlreadyExists") {
		return p, err
	}
	annotations, trust := map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::000000000000:role/" + name}, statement("shop")
	switch r.IntN(5) {
	case 0:
		p.about += ", its role does not exist"
		trust = ""
	case 1:
		p.about += ", its role trusts another"
		trust = statement("other")
	case 2:
		p.about += ", its role trusts nobody from outside"
		trust = trustEC2
	case 3:
		p.about += ", its tokens have another audience"
		annotations["eks.amazonaws.com/audience"] = name
	case 4:
		p.about += ", it has no annotation"
		p.possible, annotations = false, nil
	}
	if trust != "" {
		if _, err := iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust}); err != nil {
			return p, err
		}
	}
	for _, account := range []string{"shop", "other"} {
		if account == "other" {
			annotations = map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::000000000000:role/" + name}
		}
		if _, err := w.kube.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Annotations: annotations}}, metav1.CreateOptions{}); err != nil {
			return p, err
		}
	}
	works := p.bystander
	other := plight{namespace: name, serviceAccount: "other"}
	before, err := w.ask(ctx, &other)
	if err != nil {
		return p, err
	}
	p.bystander = func(ctx context.Context) error { // those who had the role have it, and nobody else
		after, err := w.ask(ctx, &other)
		if err == nil && after.done != before.done {
			err = fmt.Errorf("another service account of the role: %t before, %t now", before.done, after.done)
		}
		return errors.Join(err, works(ctx))
	}
	return p, nil
}
