package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/atomicfile"
)

// runPodFlags are the flags of drydock run for pods.
type runPodFlags struct {
	pod, cluster, container, account, region string
}

func (f *runPodFlags) add(cmd *cobra.Command, o *globalOptions) {
	cmd.Flags().StringVar(&f.pod, "pod", "", "run the command as this pod: [NAMESPACE/]NAME, or a ready pod of the Deployment NAME")
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "the pod's cluster (optional if there is only one)")
	cmd.Flags().StringVar(&f.container, "container", "", "the pod's container (default: the first)")
	cmd.Flags().StringVar(&f.account, "account", cmp.Or(defaultAccount(), "000000000000"), "the cluster's account")
	cmd.Flags().StringVar(&f.region, "region", defaultRegion(), "the cluster's region")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("pod", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return o.podNames(cmd.Context(), api.Place{Account: f.account, Region: f.region}, f.cluster, true, begun), cobra.ShellCompDirectiveNoFileComp
	}))
}

func (f *runPodFlags) check() (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(f.pod, "/")
	if !ok {
		namespace, name = "default", f.pod
	}
	switch {
	case namespace == "" || name == "" || strings.Contains(name, "/"):
		err = withHint(fmt.Errorf("--pod %q is not [NAMESPACE/]NAME", f.pod), "drydock run --pod default/web -- aws sts get-caller-identity")
	case !accountID.MatchString(f.account):
		err = fmt.Errorf("--account %q is not a 12-digit account ID", f.account)
	}
	return namespace, name, err
}

// runAsPod runs a program as a container of a pod, and returns its exit code as an error.
func (o *globalOptions) runAsPod(ctx context.Context, info api.DaemonInfo, f *runPodFlags, path string, args []string) (err error) {
	namespace, name, err := f.check()
	if err != nil {
		return &ExitError{2, err}
	}
	bundle, err := writeBundle(info)
	if err != nil {
		return err
	}
	// This process has two ways into the daemon: one for all HTTP, and one for the cluster's API.
	var lns [2]net.Listener
	for i := range lns {
		if lns[i], err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		defer lns[i].Close() // the forwarder closes it, unless it was not started
	}
	// A signal is handled by the command: this continues until the command has ended.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	events, run, err := o.clientOf(info).BeginPodRun(ctx, api.PodRunRequest{
		Account: f.account, Region: f.region, Cluster: f.cluster, Namespace: namespace, Pod: name, Container: f.container,
		Listener: lns[0].Addr().String(),
	})
	if err != nil {
		return err
	}
	defer events.Close()
	if run.Pod != name {
		o.progress("Running as pod %s/%s.", namespace, run.Pod)
	}
	if f.container == "" && len(run.Containers) > 1 {
		o.progress("Defaulted container %q out of: %s", run.Container, strings.Join(run.Containers, ", "))
	}
	dir, err := os.MkdirTemp("", "drydock-pod-") // MkdirTemp sets mode 0700
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := podFiles{dir}
	if err := errors.Join(p.write(run.Files), p.writeKubeconfig(run, namespace, lns[1].Addr().String()), p.makeHome(os.Getenv("HOME"))); err != nil {
		return err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	defer events.Close() // first of the two: follow returns
	followed := make(chan struct{})
	wg.Go(func() {
		defer close(followed)
		o.follow(events, p)
	})
	for i, target := range []string{api.PodRunTarget, api.PodRunKubernetes} {
		fw := newForwarder(info.URL, api.PodRunAuthorization+run.Secret, target)
		wg.Go(func() { fw.serve(ctx, lns[i]) })
	}
	defer cancel()
	e := podEnv{run: run, dir: dir, pod: run.Pod, listener: lns[0].Addr().String(), kubernetes: lns[1].Addr().String(), bundle: bundle, ca: info.CAFile}
	err = o.runChild(p.ways(path, args, e.environ(os.Environ()))...)
	// What the daemon said about the command's last call may still be to come.
	end, done := context.WithTimeout(ctx, lastNotices)
	defer done()
	if o.clientOf(info).EndPodRun(end, run.Secret) == nil {
		select {
		case <-followed:
		case <-end.Done():
		}
	}
	return err
}

// lastNotices is how long the command's end waits for them.
const lastNotices = 2 * time.Second

// follow writes new tokens and shows notices until the events end.
func (o *globalOptions) follow(events *api.PodRunEvents, p podFiles) {
	for {
		e, err := events.Next()
		if err != nil {
			return // the command or the daemon has ended: its tokens stay valid until they expire
		}
		if e.Notice != "" {
			o.progress("drydock: %s", e.Notice)
		}
		if err := p.write(e.Files); err != nil {
			o.progress("drydock: writing the pod's new tokens: %v", err)
		}
	}
}

// podFiles is the folder of a run. It contains the pod's volumes that have tokens, under the same paths as in the
// pod.
type podFiles struct{ dir string }

// file returns where a path of the container is. It is never outside of the folder.
func (p podFiles) file(name string) string {
	return filepath.Join(p.dir, filepath.Clean("/"+name))
}

// write replaces each file atomically, because programs may be reading it.
func (p podFiles) write(files map[string][]byte) error {
	for name, data := range files {
		file := p.file(name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := atomicfile.Write(file, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// serviceAccountDir is where pods find the credentials for their cluster's API.
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// home is the command's home folder.
func (p podFiles) home() string { return filepath.Join(p.dir, "home") }

// makeHome links to everything in the caller's home folder except identities: the AWS CLI caches credentials of roles
// below ~/.aws by role, whoever assumed it.
func (p podFiles) makeHome(of string) error {
	if err := os.Mkdir(p.home(), 0o700); err != nil || of == "" {
		return err
	}
	entries, err := os.ReadDir(of)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case ".aws", ".kube", ".boto":
			continue
		}
		target, err := filepath.Abs(filepath.Join(of, e.Name()))
		if err == nil {
			err = os.Symlink(target, filepath.Join(p.home(), e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p podFiles) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// writeKubeconfig replaces the in-cluster configuration, whose files have a fixed path. For a pod without the token
// it is empty.
func (p podFiles) writeKubeconfig(run *api.PodRun, namespace, address string) error {
	kc := clientcmdapi.NewConfig()
	if run.Files[serviceAccountDir+"/token"] != nil {
		const name = "in-cluster"
		kc.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthority: p.file(serviceAccountDir + "/ca.crt")}
		kc.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: p.file(serviceAccountDir + "/token")}
		kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
		kc.CurrentContext = name
	}
	return clientcmd.WriteToFile(*kc, p.kubeconfig())
}
