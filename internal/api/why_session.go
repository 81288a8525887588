package api

// A SessionExplanation says whether a session with an instance can be started, and what prevents it.
type SessionExplanation struct {
	Instance  string `json:"instance"`
	Account   string `json:"account"`
	Region    string `json:"region"`
	By        string `json:"by"`        // ssm, eic or ssh
	Principal string `json:"principal"` // the caller
	Role      string `json:"role,omitempty"`
	// Open says that a session can be started now.
	Open  bool     `json:"open"`
	Steps []Step   `json:"steps"`
	Notes []string `json:"notes,omitempty"`
}

// FirstFailed returns the step that prevents a session, or nil.
func (e *SessionExplanation) FirstFailed() *Step { return firstFailed(e.Steps) }

// Text renders the chain of steps.
func (e *SessionExplanation) Text() string {
	return chainText(e.Instance+" in "+e.Region+" by "+e.By+", as "+e.Principal, e.Steps, e.Notes, e.Verdict())
}

// Chain returns the steps, and reports whether a session can be started.
func (e *SessionExplanation) Chain() ([]Step, bool) { return e.Steps, e.Open }

// Verdict summarizes the chain in a sentence.
func (e *SessionExplanation) Verdict() string {
	switch failed := e.FirstFailed(); {
	case failed != nil:
		return "No session: " + failed.Name + " fails."
	case e.Open:
		return "A session can be started."
	default:
		return "Not yet."
	}
}
