package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// A PodExplanation is how far a pod has come, from its admission to its containers.
type PodExplanation struct {
	Cluster   string `json:"cluster"`
	Account   string `json:"account"`
	Region    string `json:"region"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node,omitempty"`
	Phase     string `json:"phase,omitempty"` // Kubernetes': Pending, Running, …
	// Running says that its containers do, or have ended well.
	Running bool     `json:"running"`
	Steps   []Step   `json:"steps"`
	Notes   []string `json:"notes,omitempty"`
}

// FirstFailed returns the step that keeps the pod from its work, or nil.
func (e *PodExplanation) FirstFailed() *Step { return firstFailed(e.Steps) }

// Text draws the chain of steps.
func (e *PodExplanation) Text() string {
	title := e.Namespace + "/" + e.Pod + " in cluster " + e.Cluster + " of " + e.Region
	if e.Node != "" {
		title += ", node " + e.Node
	}
	return chainText(title, e.Steps, e.Notes, e.verdict())
}

func (e *PodExplanation) chain() ([]Step, bool) { return e.Steps, e.Running && e.FirstFailed() == nil }

func (e *PodExplanation) verdict() string {
	failed := e.FirstFailed()
	switch {
	case failed != nil && e.Phase == "":
		return "There is no such pod: " + failed.Name + " fails."
	case failed != nil && e.Running:
		return e.Phase + ", but " + failed.Name + " fails."
	case failed != nil:
		return e.Phase + ": " + failed.Name + " fails."
	case e.Running:
		return e.Phase + "."
	default:
		return e.Phase + ": it is on its way."
	}
}

func newWhyPod(o *globalOptions) *cobra.Command {
	var f whyNodeFlags
	var cluster, namespace string
	var watch bool
	cmd := &cobra.Command{
		Use:   "pod [NAMESPACE/]NAME",
		Short: "Show how far a pod has come, and what keeps it from running",
		Long: `Show the steps from a pod's admission to its running containers: admission,
scheduling or Fargate's profiles, the node, its address, its images, the
ConfigMaps and Secrets it names, the IAM role of its service account. The first
that fails is shown with its evidence, who decided so, and a command that would
change it. NAME may be a Deployment's or another maker's of pods: then it is the
pod of it that is worst off, or why none could be made.

The exit code is 0 if the pod runs and nothing fails, 1 if not, 2 if it is not known.`,
		Example: `  drydock why pod kube-system/coredns --cluster dev
  drydock why pod web-7c5ddbdf54-9x2lq --namespace shop
  drydock why pod shop/web --watch`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			name := args[0]
			if ns, rest, ok := strings.Cut(name, "/"); ok {
				if namespace != "" && namespace != ns {
					return &ExitError{2, fmt.Errorf("%q and --namespace %s are of two namespaces", name, namespace)}
				}
				namespace, name = ns, rest
			} else if namespace == "" {
				namespace = "default"
			}
			if namespace == "" || name == "" || strings.Contains(name, "/") {
				return &ExitError{2, withHint(fmt.Errorf("%q is not [NAMESPACE/]NAME", args[0]), "drydock why pod default/web")}
			}
			info, err := o.readInfo()
			if err != nil {
				return &ExitError{2, err}
			}
			q := url.Values{"account": {f.account}, "region": {f.region}, "cluster": {cluster}, "namespace": {namespace}, "name": {name}}
			return whyChain(cmd.Context(), o, f.output, watch, func(ctx context.Context) (explanation, error) {
				var e PodExplanation
				return &e, orHint(call(ctx, info, http.MethodGet, "why/pod", q, nil, &e), "drydock status", "kubectl get pods --namespace "+namespace)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", "the cluster (not needed where there is only one)")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the namespace (default unless NAME tells it)")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show steps as they happen, until the pod runs")
	return cmd
}
