package why

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// What the source of a twin did not return makes verdicts unknown. The functions below return the reasons, and none if
// the verdict holds whatever the missing answers are.

// unknown returns what is missing of a twin, as far as it is relevant.
func (x *Explainer) unknown(account string, relevant func(recording.Gap) bool) []string {
	if x.cfg.Gaps == nil {
		return nil
	}
	var out []string
	for _, g := range x.cfg.Gaps(account) {
		if g.Code == recording.NotCopied {
			continue // what is known of it does not matter to anything else
		}
		if text := g.String(); relevant(g) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// onlyShown are the operations of EKS that only show what has happened, or what AWS thinks of a cluster.
var onlyShown = []string{"ListInsights", "DescribeInsight", "ListUpdates", "DescribeUpdate", "ListCapabilities", "DescribeCapability"}

// unreadUpdates returns which updates were not read of a cluster of a twin, or of CLUSTER/PART.
func (x *Explainer) unreadUpdates(account, of string) []string {
	return x.unknown(account, func(g recording.Gap) bool {
		return g.Service == "eks" && (g.Operation == "ListUpdates" || g.Operation == "DescribeUpdate") && (g.Subject == of || strings.HasPrefix(g.Subject, of+"/"))
	})
}

// unreadEntries returns which access entries were not read of a cluster of a twin.
func (x *Explainer) unreadEntries(account, cluster string) []string {
	return x.unknown(account, func(g recording.Gap) bool {
		return g.Service == "eks" && g.Cluster == cluster && (g.Operation == "ListAccessEntries" || g.Operation == "DescribeAccessEntry")
	})
}

// An unknownError says that a question cannot be answered because the source of a twin did not return something.
type unknownError struct {
	what    string
	reasons []string
}

func (e *unknownError) Error() string {
	return e.what + " is unknown: " + strings.Join(e.reasons, "; ")
}

// refuse answers a request with an error: with status, or with StatusUnknown if it is an unknownError.
func refuse(w http.ResponseWriter, err error, status int) {
	if _, ok := errors.AsType[*unknownError](err); ok {
		status = api.StatusUnknown
	}
	http.Error(w, err.Error(), status)
}

// unknownPolicies returns what is missing of the policies of principals, given by their ARNs.
func (x *Explainer) unknownPolicies(account string, principals ...string) []string {
	return x.unknown(account, func(g recording.Gap) bool {
		switch {
		case g.Service != "iam" || g.Operation == "GetOpenIDConnectProvider" || g.Operation == "ListOpenIDConnectProviders":
			return false
		case g.Subject != "":
			return slices.Contains(principals, g.Subject)
		}
		return len(principals) == 0 || slices.ContainsFunc(principals, func(p string) bool { return !x.readAlone(p) })
	})
}

// unknownRole returns why it is unknown whether a role of a cluster exists that is not in the twin. Such roles are always kept.
func (x *Explainer) unknownRole(account, roleARN string) []string {
	return x.unknown(account, func(g recording.Gap) bool {
		return g.Service == "iam" && (g.Operation == "GetAccountAuthorizationDetails" && g.Code != recording.NotAsked || g.Operation == "GetRole" && path.Base(g.Subject) == path.Base(roleARN))
	})
}

// readAlone reports whether a role was read although not all entities of IAM were: then it was read by itself.
func (x *Explainer) readAlone(roleARN string) bool {
	_, err := x.cfg.IAM.RoleByARN(context.Background(), roleARN)
	return err == nil
}

// unknownRequest returns what a decision about a request depends on and the source did not return. An explicit deny
// holds, whatever other policies say.
func (x *Explainer) unknownRequest(account, service, principal string, d policy.Decision) []string {
	if d.ExplicitDeny {
		return nil
	}
	return append(x.unknownPolicies(account, principal), x.unknown(account, func(g recording.Gap) bool {
		return g.Service == service && (service == "kms" || service == "ecr") || // whose resources have policies
			g.Service == recording.Organizations && d.Allowed
	})...)
}

// What the rehearsal of an upgrade looks at: controllers create evicted pods again, the placing kinds decide whether a pod can be
// created and scheduled, and the others are only looked at.
var (
	controllers = []string{"deployments", "replicasets", "statefulsets", "replicationcontrollers", "jobs", "daemonsets"}
	placing     = []string{
		"nodes", "pods", "namespaces", "serviceaccounts", "limitranges", "resourcequotas", "priorityclasses", "runtimeclasses", "poddisruptionbudgets",
		"persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes", "csidrivers", "resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses",
	}
	upgraded = []string{"services", "configmaps", "clusterroles", "clusterrolebindings", "roles", "rolebindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "customresourcedefinitions"}
)

// UnknownOfUpgrade returns what the source of a twin did not return and the rehearsal of a cluster's upgrade looks at.
func (x *Explainer) UnknownOfUpgrade(account, cluster string) []string {
	return x.unknown(account, func(g recording.Gap) bool {
		if g.Cluster != cluster || g.Code == recording.Redacted {
			return false
		}
		if g.Service == "eks" {
			return slices.Contains([]string{"ListNodegroups", "DescribeNodegroup", "ListAddons", "DescribeAddon", "ListInsights", "DescribeInsight"}, g.Operation)
		}
		kind, _, _ := strings.Cut(g.Resource, ".")
		return kind == "" || slices.Contains(slices.Concat(controllers, placing, upgraded), kind)
	})
}

// UnknownMoves returns why it is unknown where pods of a twin's cluster go that are evicted, or "" if it is known.
func (x *Explainer) UnknownMoves(account, cluster string) string {
	reasons := x.unknown(account, func(g recording.Gap) bool {
		kind, _, _ := strings.Cut(g.Resource, ".")
		return g.Service == recording.Kubernetes && g.Cluster == cluster && g.Code != recording.Redacted &&
			(kind == "" || slices.Contains(controllers, kind) || g.Subject == "" && slices.Contains(placing, kind))
	})
	return strings.Join(reasons[:min(1, len(reasons))], "")
}
