package reach

// A Fault is a part of the network that is deliberately broken. It is a Resource like the others, and drops packets
// that no rule drops.
type Fault struct {
	ID string
	// Instance or Zone selects the network interfaces that no packet passes. With Metadata or DNS, Instance or VPC
	// selects whose local service does not answer.
	Instance, Zone, VPC string
	Metadata, DNS       bool
	// Text describes it as a cause, and Fix is the command that ends it.
	Text, Fix string
}

// ResourceID returns the ID.
func (f *Fault) ResourceID() string { return f.ID }

// cut returns the fault that cuts an interface off, or nil.
func (s *Snapshot) cut(e *Interface) *Fault {
	for _, f := range s.topology.faults {
		if f.Metadata || f.DNS {
			continue
		}
		if f.Instance != "" && f.Instance == e.Instance || f.Zone != "" && f.Zone == e.Zone {
			return f
		}
	}
	return nil
}

// silent returns the fault because of which a local service does not answer an interface, or nil.
func (s *Snapshot) silent(dns bool, vpc, instance string) *Fault {
	for _, f := range s.topology.faults {
		if f.DNS == dns && f.Metadata == !dns && (f.Instance != "" && f.Instance == instance || f.VPC != "" && f.VPC == vpc) {
			return f
		}
	}
	return nil
}

// severed denies packets at an interface that is cut off, once per fault and direction. The interface's filters do
// not matter then.
func (w *walk) severed(e *Interface) bool {
	f := w.s.cut(e)
	if f == nil {
		return false
	}
	what := "isolated by a fault"
	if f.Zone != "" {
		what = "down with its zone " + f.Zone + ", by a fault"
	}
	w.deny(Hop{Kind: KindFault, ID: f.ID, Interface: e.ID, VPC: e.VPC}, Explanation{Code: CodeFault, Interface: e.ID, VPC: e.VPC}, "%s is %s: %s", owner(e), what, f.Text)
	return true
}

func owner(e *Interface) string {
	if e.Instance != "" {
		return e.Instance
	}
	return e.ID
}

// unanswered denies a packet to a local service that does not answer because of a fault.
func (w *walk) unanswered(h Hop, e *Interface, dns bool) bool {
	f := w.s.silent(dns, e.VPC, e.Instance)
	if f == nil {
		return false
	}
	w.deny(h, Explanation{Code: CodeFault, Kind: KindFault, Component: f.ID, Interface: e.ID, VPC: e.VPC}, "%s does not answer: %s", h.Note, f.Text)
	return true
}

// dnsFault returns the fault because of which a VPC's DNS server does not answer a source, or nil.
func (s *Snapshot) dnsFault(from Endpoint, vpc string) *Fault {
	if len(s.topology.faults) == 0 {
		return nil
	}
	instance := ""
	switch r := s.Get(from.ID).(type) {
	case *Instance:
		instance = r.ID
	case *Interface:
		instance = r.Instance
	}
	return s.silent(true, vpc, instance)
}
