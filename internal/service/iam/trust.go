package iam

import (
	"errors"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// checkTrust validates a trust policy. Like IAM, it rejects principals that do not exist, except
// those of unused accounts, about which nothing is known. It returns the unique IDs of known
// principals by ARN.
func checkTrust(r store.Reader, document string) (map[string]string, error) {
	if policy.Size(document) > maxTrustBytes {
		return nil, quotaExceeded("ACLSizePerRole", maxTrustBytes)
	}
	doc, err := policy.Parse(policy.Trust, document)
	if err != nil {
		return nil, malformedDocument(err)
	}
	var ids map[string]string
	for _, st := range doc.Statements {
		for _, ps := range []*policy.Principals{st.Principals, st.NotPrincipals} {
			if ps == nil {
				continue
			}
			for _, name := range ps.Service {
				if !strings.HasSuffix(name, ".amazonaws.com") && !strings.HasSuffix(name, ".amazon.com") {
					return nil, invalidPrincipal("SERVICE", name)
				}
			}
			for _, name := range ps.AWS {
				id, ok := principalID(r, name)
				if !ok {
					return nil, invalidPrincipal("AWS", name)
				}
				if id != "" {
					if ids == nil {
						ids = map[string]string{}
					}
					ids[name] = id
				}
			}
		}
	}
	return ids, nil
}

// principalID reports whether a principal exists, and returns the unique ID of a user or role if
// its account is known.
func principalID(r store.Reader, name string) (id string, ok bool) {
	if isAccount(name) || strings.HasPrefix(name, "AIDA") || strings.HasPrefix(name, "AROA") {
		return "", true
	}
	a, err := arn.Parse(name)
	if err != nil || a.Partition != awsapi.Partition || a.Region != "" || !isAccount(a.Account) {
		return "", false
	}
	typ, _, _ := strings.Cut(a.Resource, "/")
	switch a.Service + " " + typ {
	case "iam root", "sts assumed-role", "sts federated-user":
		return "", true
	case "iam user", "iam role":
	default:
		return "", false
	}
	_, path, n, _ := arnName(name, typ)
	if typ == "user" {
		if u, err := users.Get(r, nameKey(a.Account, n)); err == nil && u.Path == path {
			return u.ID, true
		}
	} else if role, err := roles.Get(r, nameKey(a.Account, n)); err == nil && role.Path == path {
		return role.ID, true
	}
	_, err = accounts.Get(r, store.Key{Account: a.Account, ID: accountID})
	return "", errors.Is(err, store.ErrNotFound)
}

func isAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }

// gone returns the principals in r's trust policy that were deleted, or replaced by others of the
// same name, with their former unique IDs.
func (s *Service) gone(r *role) map[string]string {
	var out map[string]string
	for name, was := range r.Trusted {
		if is, ok := principalID(s.store, name); ok && is == was {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = was
	}
	return out
}

// trust returns r's trust policy as it is in force. IAM stores principals by unique ID, so that a
// new principal does not inherit the trust in a former one of the same name.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html#principal-roles
func (s *Service) trust(r *role) *policy.Document {
	doc := s.parsed.get(policy.Trust, r.Trust)
	gone := s.gone(r)
	if len(gone) == 0 {
		return doc
	}
	byID := func(ps *policy.Principals) *policy.Principals {
		if ps == nil {
			return nil
		}
		out := *ps
		out.AWS = slices.Clone(ps.AWS)
		for i, name := range out.AWS {
			if id, ok := gone[name]; ok {
				out.AWS[i] = id
			}
		}
		return &out
	}
	out := *doc
	out.Statements = slices.Clone(doc.Statements)
	for i := range out.Statements {
		st := &out.Statements[i]
		st.Principals, st.NotPrincipals = byID(st.Principals), byID(st.NotPrincipals)
	}
	return &out
}

// shownTrust returns r's trust policy as IAM shows it, with unique IDs in place of deleted
// principals.
func (s *Service) shownTrust(r *role) string {
	text := r.Trust
	for name, id := range s.gone(r) {
		text = strings.ReplaceAll(text, `"`+name+`"`, `"`+id+`"`)
	}
	return text
}
