package secretsmanager

import (
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// secrets are stored by name.
	secrets = store.NewCollection[secretRecord]("secretsmanager", "secret")
	// values are stored under SECRET/VERSION, where SECRET is the ID of the secret's record.
	values = store.NewCollection[valueRecord]("secretsmanager", "value")
)

// A secretRecord is a secret.
type secretRecord struct {
	// ID distinguishes the secret from earlier and later ones with the same name.
	ID          string
	Name        string
	Suffix      string // the random suffix of the ARN
	Description string `json:",omitempty"`
	Key         string `json:",omitempty"` // the KMS key; empty for AWS's own
	Created     time.Time
	Changed     time.Time
	Accessed    time.Time `json:",omitzero"` // truncated to the day
	// Deleted is when the deletion was requested, and Until is when the recovery window ends.
	Deleted  time.Time `json:",omitzero"`
	Until    time.Time `json:",omitzero"`
	Policy   string    `json:",omitempty"`
	Rotation rotation  `json:",omitzero"`
	// Versions are the secret's versions, oldest first.
	Versions []versionRecord
	Tags     map[string]string `json:",omitempty"`
}

// A rotation is how a secret would be rotated if there were Lambda functions.
type rotation struct {
	Enabled  bool
	Lambda   string
	Days     int64  `json:",omitempty"`
	Duration string `json:",omitempty"`
	Schedule string `json:",omitempty"`
	Set      time.Time
}

// A versionRecord is a version of a secret, without its value.
type versionRecord struct {
	ID       string
	Stages   []string `json:",omitempty"`
	Created  time.Time
	Accessed time.Time `json:",omitzero"` // truncated to the day
	Key      string    `json:",omitempty"`
}

// A valueRecord is the value of a version, encrypted with a data key. DataKey is that key, encrypted by KMS.
type valueRecord struct {
	Sealed, DataKey []byte
	Binary          bool `json:",omitempty"`
}

// at returns the index of the version with an ID, or -1.
func (r *secretRecord) at(id string) int {
	return slices.IndexFunc(r.Versions, func(v versionRecord) bool { return v.ID == id })
}

// staged returns the index of the version with a staging label, or -1.
func (r *secretRecord) staged(stage string) int {
	return slices.IndexFunc(r.Versions, func(v versionRecord) bool { return slices.Contains(v.Stages, stage) })
}

// move attaches a staging label to the version at an index and detaches it from any other. The version that loses
// AWSCURRENT gets AWSPREVIOUS and is no longer pending.
// [recorded] test_update_secret_version_stages_current_pending, LocalStack's
// tests/aws/services/secretsmanager/test_secretsmanager.py
func (r *secretRecord) move(stage string, to int) {
	from := r.staged(stage)
	if from == to {
		return
	}
	if from >= 0 {
		r.detach(stage, from)
		if stage == current {
			r.move(previous, from)
			r.detach(pending, from)
		}
	}
	if to >= 0 {
		r.Versions[to].Stages = append(slices.Clone(r.Versions[to].Stages), stage)
		slices.Sort(r.Versions[to].Stages)
		if stage == current {
			r.detach(previous, to)
		}
	}
}

func (r *secretRecord) detach(stage string, at int) {
	r.Versions[at].Stages = slices.DeleteFunc(slices.Clone(r.Versions[at].Stages), func(s string) bool { return s == stage })
}

const (
	current  = "AWSCURRENT"
	previous = "AWSPREVIOUS"
	pending  = "AWSPENDING"
)

// maxVersions is the maximum number of versions. Beyond it the oldest ones without a staging label are removed.
// https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_limits.html
const maxVersions = 100

// prune removes the versions beyond maxVersions and returns their IDs.
func (r *secretRecord) prune() []string {
	var gone []string
	r.Versions = slices.DeleteFunc(r.Versions, func(v versionRecord) bool {
		if len(v.Stages) > 0 || len(r.Versions)-len(gone) <= maxVersions {
			return false
		}
		gone = append(gone, v.ID)
		return true
	})
	return gone
}
