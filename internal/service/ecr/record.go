package ecr

import (
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/glob"
	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// repositories are stored by name.
	repositories = store.NewCollection[repositoryRecord]("ecr", "repository", store.Same) // version 2 has Checked
	// registries are stored under the ID "registry".
	registries = store.NewCollection[registryRecord]("ecr", "registry")
	// cacheRules are stored by their prefix.
	cacheRules = store.NewCollection[cacheRuleRecord]("ecr", "cacherule", store.Same) // version 2 has CustomRole
	// templates are the repository creation templates. They are stored by their prefix.
	templates = store.NewCollection[templateRecord]("ecr", "template")
	// tokenKeys holds the key that seals authorization tokens and URLs of layers. It belongs to the installation.
	tokenKeys = store.NewCollection[tokenKey]("ecr", "token-key")
)

// A repositoryRecord is a repository.
type repositoryRecord struct {
	// ID distinguishes the repository from earlier and later ones with the same name.
	ID         string
	Name       string
	Created    time.Time
	Mutability string
	// Exceptions are patterns of tags to which the opposite of Mutability applies.
	Exceptions []string `json:",omitempty"`
	ScanOnPush bool     `json:",omitempty"`
	Encryption string
	KMSKey     string            `json:",omitempty"`
	Policy     string            `json:",omitempty"`
	Lifecycle  string            `json:",omitempty"`
	Evaluated  time.Time         // when the lifecycle policy was last applied
	Preview    *previewRecord    `json:",omitempty"`
	Tags       map[string]string `json:",omitempty"`
	// Checked is when tags were last compared with the upstream registry, if that was less than checkEvery ago.
	Checked map[string]time.Time `json:",omitempty"`
}

// immutable reports whether a tag of the repository may not be moved to another image.
func (r *repositoryRecord) immutable(tag string) bool {
	exception := slices.ContainsFunc(r.Exceptions, func(pattern string) bool { return glob.Match(pattern, tag) })
	return immutables[r.Mutability] != exception
}

// A previewRecord is a lifecycle policy that is evaluated without deleting images.
type previewRecord struct {
	Policy string
	At     time.Time
}

// A registryRecord has the settings of an account's registry in a region.
type registryRecord struct {
	Policy   string            `json:",omitempty"`
	Scanning string            `json:",omitempty"` // the rules, as JSON
	Settings map[string]string `json:",omitempty"`
}

// A cacheRuleRecord is a pull-through cache rule.
type cacheRuleRecord struct {
	Prefix           string
	Upstream, URL    string
	UpstreamPrefix   string `json:",omitempty"`
	Credential       string `json:",omitempty"`
	CustomRole       string `json:",omitempty"`
	Created, Updated time.Time
}

// A templateRecord is a repository creation template.
type templateRecord struct {
	Prefix      string
	Description string `json:",omitempty"`
	AppliedFor  []string
	Mutability  string
	Exceptions  []string `json:",omitempty"`
	Encryption  string
	KMSKey      string            `json:",omitempty"`
	Policy      string            `json:",omitempty"`
	Lifecycle   string            `json:",omitempty"`
	Tags        map[string]string `json:",omitempty"`
	CustomRole  string            `json:",omitempty"`

	Created, Updated time.Time
}

type tokenKey struct{ Key []byte }
