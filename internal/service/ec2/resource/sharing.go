package resource

import (
	"slices"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
)

// Sharing lists the accounts, besides the owner, that may use a snapshot or an image.
type Sharing struct {
	Public   bool     `json:",omitempty"`
	Accounts []string `json:",omitempty"` // sorted
}

// Allows reports whether an account may use something that belongs to owner.
func (s Sharing) Allows(owner, account string) bool {
	return s.Public || owner == account || slices.Contains(s.Accounts, account)
}

// A Permission is a permission in a request, for an account or for a group. The only group is "all".
type Permission struct{ Account, Group string }

// Change returns the sharing with permissions added and removed.
func (s Sharing) Change(add, remove []Permission) (Sharing, error) {
	s.Accounts = slices.Clone(s.Accounts)
	for n, p := range slices.Concat(add, remove) {
		added := n < len(add)
		switch {
		case p.Group == "all":
			s.Public = added
		case p.Group != "":
			return s, ec2err.InvalidValue(p.Group, "group", "")
		case len(p.Account) != 12 || !isDigits(p.Account):
			return s, ec2err.New("InvalidAMIAttributeItemValue", "Invalid attribute item value \"%s\" for userId item type.", p.Account)
		case added && !slices.Contains(s.Accounts, p.Account):
			s.Accounts = append(s.Accounts, p.Account)
		case !added:
			s.Accounts = slices.DeleteFunc(s.Accounts, func(a string) bool { return a == p.Account })
		}
	}
	slices.Sort(s.Accounts)
	return s, nil
}

// Permissions returns the permissions that make up the sharing.
func (s Sharing) Permissions() []Permission {
	out := make([]Permission, 0, len(s.Accounts)+1)
	if s.Public {
		out = append(out, Permission{Group: "all"})
	}
	for _, a := range s.Accounts {
		out = append(out, Permission{Account: a})
	}
	return out
}

func isDigits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// Requested returns the permissions that an attribute request adds and removes. A request has either an operation
// ("add" or "remove") and lists of accounts and groups, or lists of permissions to add and remove.
func Requested(operation string, accounts, groups []string, add, remove []Permission) (more, fewer []Permission, err error) {
	var listed []Permission
	for _, a := range accounts {
		listed = append(listed, Permission{Account: a})
	}
	for _, g := range groups {
		listed = append(listed, Permission{Group: g})
	}
	switch {
	case len(listed) == 0:
	case operation == "add":
		add = append(add, listed...)
	case operation == "remove":
		remove = append(remove, listed...)
	default:
		return nil, nil, ec2err.InvalidValue(operation, "operationType", "")
	}
	return add, remove, nil
}
