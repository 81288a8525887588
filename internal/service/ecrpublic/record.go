package ecrpublic

import (
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// repositories are stored by name.
	repositories = store.NewCollection[repositoryRecord]("ecr-public", "repository")
	// registries are stored under the ID "registry".
	registries = store.NewCollection[registryRecord]("ecr-public", "registry")
)

const registryID = "registry"

// A repositoryRecord is a repository.
type repositoryRecord struct {
	// ID distinguishes the repository from earlier and later ones with the same name.
	ID      string
	Name    string
	Created time.Time
	Catalog catalogRecord
	Policy  string            `json:",omitempty"`
	Tags    map[string]string `json:",omitempty"`
}

// A catalogRecord is what the gallery shows about a repository.
type catalogRecord struct {
	Description, About, Usage       string   `json:",omitempty"`
	Architectures, OperatingSystems []string `json:",omitempty"`
}

// A registryRecord has the settings of an account's registry.
type registryRecord struct{ DisplayName string }
