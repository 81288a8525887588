package ec2

// A prefixListRecord is a customer-managed prefix list. AWS's own are computed
// (managedPrefixLists).
type prefixListRecord struct {
	ID         string // pl-…
	Name       string
	IPv6       bool `json:",omitempty"`
	MaxEntries int32
	// Versions holds the entries of every version; version 1 is the first.
	Versions [][]prefixListEntry
	State    string // create-complete, modify-complete, …
	Tags     Tags   `json:",omitempty"`
}

type prefixListEntry struct {
	CIDR        string
	Description string `json:",omitempty"`
}

// entries returns those of the current version.
func (p prefixListRecord) entries() []prefixListEntry {
	if len(p.Versions) == 0 {
		return nil
	}
	return p.Versions[len(p.Versions)-1]
}
