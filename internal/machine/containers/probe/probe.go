// Package probe finds out what this machine offers for machines that run containers: user namespaces, cgroup v2,
// overlay file systems, nftables. It changes nothing, needs no privileges, and names a fix for each thing missing.
//
// Used by `drydock doctor containers`, `drydock up` and the containers runtime itself. It depends on packages
// nodebin and volumes only.
package probe

// A Level says how much a missing feature matters.
type Level string

// The levels of a check.
const (
	OK      Level = "ok"
	Limited Level = "limited" // containers run, with something missing
	Missing Level = "missing" // no containers run
)

// A Check is the result for one feature.
type Check struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	// Found says what was found, and what is missing because of it.
	Found string `json:"found"`
	// Fix is a command to paste, or empty.
	Fix string `json:"fix,omitempty"`
}

// A Report is what a machine offers.
type Report struct {
	// Available reports whether machines that run containers can be started.
	Available bool    `json:"available"`
	Checks    []Check `json:"checks"`
}

// MountFix is the fix of a machine that cannot mount disks and volumes.
const MountFix = "sudo apt-get install -y e2fsprogs && sudo modprobe loop"

// newReport returns the report of checks.
func newReport(checks []Check) Report {
	r := Report{Available: true, Checks: checks}
	for _, c := range checks {
		r.Available = r.Available && c.Level != Missing
	}
	return r
}

// Why says why containers are not available, or returns "".
func (r Report) Why() string {
	for _, c := range r.Checks {
		if c.Level == Missing {
			return c.Name + ": " + c.Found
		}
	}
	return ""
}

// Limits says what is missing where containers are available. The internet is not among it, which is off by default: see Has.
func (r Report) Limits() []string {
	var out []string
	for _, c := range r.Checks {
		if c.Level == Limited && c.Name != Internet {
			out = append(out, c.Name+": "+c.Found)
		}
	}
	return out
}

// Has reports whether a check found everything.
func (r Report) Has(name string) bool {
	for _, c := range r.Checks {
		if c.Name == name {
			return c.Level == OK
		}
	}
	return false
}

// The names of the checks.
const (
	Kernel     = "kernel"
	Namespaces = "user namespaces"
	SubIDs     = "subordinate IDs"
	Proc       = "/proc"
	Cgroups    = "cgroup v2"
	Limits     = "resource limits"
	Overlay    = "overlay"
	NFTables   = "nftables"
	Programs   = "node programs"
	Root       = "root"
	Volumes    = "volumes"
	Internet   = "internet"
)
