package api

import "strings"

// A PodExplanation is how far a pod has come, from its admission to its containers.
type PodExplanation struct {
	Cluster   string `json:"cluster"`
	Account   string `json:"account"`
	Region    string `json:"region"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node,omitempty"`
	Phase     string `json:"phase,omitempty"` // Kubernetes' phase: Pending, Running, …
	// Running says that its containers run, or have succeeded.
	Running bool     `json:"running"`
	Steps   []Step   `json:"steps"`
	Notes   []string `json:"notes,omitempty"`
	// Unknown lists what could not be read from a twin's source. If it is not empty, the steps are what is known, and whether the
	// pod runs is unknown.
	Unknown []string `json:"unknown,omitempty"`
}

// IsUnknown reports whether the verdict depends on what could not be read from a twin's source.
func (e *PodExplanation) IsUnknown() bool { return len(e.Unknown) > 0 }

// FirstFailed returns the step that keeps the pod from working, or nil.
func (e *PodExplanation) FirstFailed() *Step { return firstFailed(e.Steps) }

// Text renders the chain of steps.
func (e *PodExplanation) Text() string {
	title := e.Namespace + "/" + e.Pod + " in cluster " + e.Cluster + " of " + e.Region
	if e.Node != "" {
		title += ", node " + e.Node
	}
	return chainText(title, e.Steps, e.Notes, e.Verdict())
}

// Chain returns the steps, and reports whether the end was reached.
func (e *PodExplanation) Chain() ([]Step, bool) { return e.Steps, e.Running && e.FirstFailed() == nil }

// Verdict summarizes the chain in a sentence.
func (e *PodExplanation) Verdict() string {
	if e.IsUnknown() {
		return strings.TrimSuffix(unknownText(e.Unknown), "\n")
	}
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
		return e.Phase + ": still in progress."
	}
}
