// Package recording defines Recordings, which hold an AWS account's answers to read operations. Package
// twin/source makes them with a user's credentials, and package twin/account loads them into an account of
// Drydock.
//
// It is a leaf, because every service that takes part in twins imports it.
package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// FormatVersion is the version of the file form. Another one is refused.
const FormatVersion = 1

// A Source is the account that was read, and what was asked of it.
type Source struct {
	Format    int       `json:"format"`
	Partition string    `json:"partition"` // aws
	Account   string    `json:"account"`   // 12 digits
	Region    string    `json:"region"`
	Caller    string    `json:"caller"`             // ARN of the principal that read
	Clusters  []string  `json:"clusters,omitempty"` // the clusters that were asked for; empty means all
	Started   time.Time `json:"started"`
	// IAM says which entities of IAM were kept: UsedIAM, or empty for all.
	IAM string `json:"iam,omitempty"`
	// Complete reports whether everything was asked. An incomplete recording can be continued, but not loaded.
	Complete bool `json:"complete"`
	// Redacted reports whether values were redacted by rule (twin.Redact).
	Redacted bool `json:"redacted"`
	// Secrets reports whether the values of Kubernetes' Secrets were read.
	Secrets bool `json:"secrets,omitempty"`
	// NoKubernetes reports whether the objects in the clusters were left out.
	NoKubernetes bool `json:"noKubernetes,omitempty"`
}

// SameScope reports whether two recordings are of the same account and region, with the same choices of what to read and keep.
func (s Source) SameScope(other Source) bool {
	return s.Account == other.Account && s.Region == other.Region && slices.Equal(s.Clusters, other.Clusters) && s.IAM == other.IAM &&
		s.Redacted == other.Redacted && s.Secrets == other.Secrets && s.NoKubernetes == other.NoKubernetes
}

// UsedIAM stands for the roles that clusters and instances use, with their policies.
const UsedIAM = "used"

// Check returns an error if the source cannot be that of a recording.
func (s Source) Check() error {
	switch {
	case s.Format != FormatVersion:
		return fmt.Errorf("the recording has format %d; this Drydock reads format %d", s.Format, FormatVersion)
	case s.Partition != "aws":
		return fmt.Errorf("partition %q is not supported: only aws is", s.Partition)
	case !accountPattern.MatchString(s.Account):
		return fmt.Errorf("invalid account %q: want 12 digits", s.Account)
	case !regionPattern.MatchString(s.Region):
		return fmt.Errorf("invalid region %q", s.Region)
	}
	return nil
}

var (
	accountPattern = regexp.MustCompile(`^[0-9]{12}$`)
	regionPattern  = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)
)

// An Answer is what the source answered to one question: an operation with its input.
type Answer struct {
	Service   string          `json:"service"` // as in IAM's actions, such as ec2
	Operation string          `json:"operation"`
	Input     json.RawMessage `json:"input"` // the SDK's input, without page tokens
	// Pages are the SDK's outputs, in order. Without pages and gap, what was asked about does not exist.
	Pages []json.RawMessage `json:"pages,omitempty"`
	// Gap says why there is no answer, or that a part of it was redacted.
	Gap *Gap `json:"gap,omitempty"`
}

// A Gap is something that could not be read from the source. Anything that depends on it is unknown.
type Gap struct {
	Service   string `json:"service"`
	Operation string `json:"operation"`
	// Cluster is the EKS cluster that it is about, or in.
	Cluster string `json:"cluster,omitempty"`
	// Resource is the kind of Kubernetes objects, such as pods or ec2nodeclasses.karpenter.k8s.aws, or empty for all.
	Resource string `json:"resource,omitempty"`
	// Subject names what was asked about, such as a role, or is empty for a whole kind of resource. It is CLUSTER/PART for
	// a part of a cluster, and NAMESPACE/NAME or NAME for a Kubernetes object.
	Subject string `json:"subject,omitempty"`
	Code    string `json:"code"` // the error's code, such as AccessDenied
	Message string `json:"message,omitempty"`
}

// Kubernetes is the service of questions to a cluster's API server. Their operation is List, and their input a
// KubernetesList.
const Kubernetes = "kubernetes"

// A KubernetesList asks for all objects of a resource of a cluster.
type KubernetesList struct {
	Cluster  string
	Group    string `json:",omitempty"`
	Version  string
	Resource string // in the plural, such as pods
}

// GroupResource is the resource with its group, such as deployments.apps or pods.
func (l *KubernetesList) GroupResource() string {
	if l.Group == "" {
		return l.Resource
	}
	return l.Resource + "." + l.Group
}

// IsSecrets reports whether the objects are Secrets.
func (l *KubernetesList) IsSecrets() bool { return l.Group == "" && l.Resource == "secrets" }

// KubernetesList returns the question of an answer to a List of Kubernetes.
func (a *Answer) KubernetesList() (KubernetesList, error) {
	q, err := Input[KubernetesList](a)
	return *q, err
}

// Input decodes the input of an answer.
func Input[In any](a *Answer) (*In, error) {
	in := new(In)
	if len(a.Input) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(a.Input, in); err != nil {
		return in, fmt.Errorf("the input of %s in the recording: %w", Action(a.Service, a.Operation), err)
	}
	return in, nil
}

// Codes of gaps that are not the source's error codes.
const (
	// NotModelled means that Drydock has no such kind of resource.
	NotModelled = "NotModelled"
	// Unreachable means that a cluster's API server did not answer.
	Unreachable = "Unreachable"
	// Redacted means that the recording does not contain the value.
	Redacted = "Redacted"
	// NotAsked means that a user chose not to read or keep it, or that it is more than an import reads.
	NotAsked = "NotAsked"
	// NotCopied means that a Kubernetes object was read, but twins do not have such objects. It matters only to questions about
	// that object.
	NotCopied = "NotCopied"
)

// The two generations of load balancers, whose IAM actions have the same prefix.
const (
	ELB   = "elb"
	ELBv2 = "elbv2"
)

// Organizations is AWS Organizations.
const Organizations = "organizations"

// Action returns the IAM action of an operation. For all operations that are read the two have the same name.
func Action(service, operation string) string {
	if service == ELB || service == ELBv2 {
		service = "elasticloadbalancing"
	}
	return service + ":" + operation
}

// Action is the IAM action of the operation, such as iam:GetRolePolicy.
func (g Gap) Action() string { return Action(g.Service, g.Operation) }

// String is the sentence for users: "the source did not allow iam:GetRolePolicy for role/node".
func (g Gap) String() string {
	var s string
	switch {
	case g.Code == NotModelled || g.Code == NotAsked || g.Code == NotCopied:
		return g.Message
	case g.Code == Redacted:
		return "secrets in the answer to " + g.Action() + " for " + g.about() + " were redacted"
	case g.Code == Unreachable:
		return g.about() + " could not be read: " + g.Message
	case g.Service == Kubernetes && g.IsDenied():
		return "the source did not allow listing " + g.about()
	case g.IsDenied():
		s = "the source did not allow " + g.Action()
	default:
		s = "the source answered " + g.Action() + " with " + g.Code
	}
	if about := g.about(); about != "" {
		s += " for " + about
	}
	return s
}

// about is what was asked about, as text.
func (g Gap) about() string {
	if g.Service == Kubernetes {
		return cmp.Or(g.Resource, "the objects") + " of cluster " + g.Cluster
	}
	return g.Subject
}

// Placed is for gaps of the first version, which named clusters and resources only in Subject.
func (g Gap) Placed() Gap {
	switch {
	case g.Cluster != "":
	case g.Service == "eks":
		g.Cluster, _, _ = strings.Cut(g.Subject, "/")
	case g.Service == Kubernetes:
		if kind, cluster, ok := strings.Cut(g.Subject, " of cluster "); ok {
			g.Cluster, g.Subject = cluster, ""
			if kind != "the objects" {
				g.Resource = kind
			}
			return g
		}
		g.Cluster, g.Subject, _ = strings.Cut(g.Subject, "/")
	}
	return g
}

// IsDenied reports whether the source refused the operation for lack of permission.
func (g Gap) IsDenied() bool { return IsDenied(g.Code) }

// IsDenied reports whether an error code means that permission is missing.
func IsDenied(code string) bool {
	switch code {
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException", "AuthorizationError", "AuthorizationErrorException", "Client.UnauthorizedOperation":
		return true
	}
	return false
}

// A Recording is everything that was read.
type Recording struct {
	Source  Source
	Answers []Answer
}

// Limits of a recording. They are far above real accounts, and far below what would fill memory.
const (
	MaxAnswers   = 200_000
	MaxPages     = 5_000     // of one question
	MaxPageBytes = 32 << 20  // of one response
	MaxBytes     = 500 << 20 // of all responses together
)

// ErrTooLarge means that a source or recording exceeds the limits.
var ErrTooLarge = errors.New("the source's answers are too large")

// Gaps returns what could not be read from the source, in the order of the requests.
func (r *Recording) Gaps() []Gap {
	var out []Gap
	for _, a := range r.Answers {
		if a.Gap != nil {
			out = append(out, a.Gap.Placed())
		}
	}
	return out
}

// A Page is a decoded page of an answer.
type Page[In, Out any] struct {
	Input  *In
	Output *Out
}

// Pages decodes the answers to an operation. Members of another type than the SDK's are an error that names the
// operation.
func Pages[In, Out any](r *Recording, service, operation string) ([]Page[In, Out], error) {
	var out []Page[In, Out]
	for _, a := range r.Answers {
		if a.Service != service || a.Operation != operation {
			continue
		}
		in, err := Input[In](&a)
		if err != nil {
			return nil, err
		}
		for _, page := range a.Pages {
			v := new(Out)
			if err := json.Unmarshal(page, v); err != nil {
				return nil, fmt.Errorf("the source's answer to %s: %w", Action(service, operation), err)
			}
			out = append(out, Page[In, Out]{in, v})
		}
	}
	return out, nil
}
