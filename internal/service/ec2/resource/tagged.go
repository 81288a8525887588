package resource

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Taggable is a kind of resource that has tags.
type Taggable struct {
	ID   IDKind
	Kind ec2types.ResourceType
	Edit func(tx *store.Tx, sc Scope, id string, fn func(tag.Set) (tag.Set, error)) error
	// List returns all resources, also those without tags.
	List func(r store.Reader, sc Scope) []TaggedResource
}

// A TaggedResource is a resource's ID and tags.
type TaggedResource struct {
	ID   string
	Tags tag.Set
}

// Tagged returns a Taggable for a kind of resource.
func Tagged[T any](kind ec2types.ResourceType, k Kind[T]) Taggable {
	return Taggable{
		ID: k.ID, Kind: kind,
		Edit: func(tx *store.Tx, sc Scope, id string, fn func(tag.Set) (tag.Set, error)) error {
			err := k.Update(tx, sc.Key(id), func(v *T) error {
				_, tags := k.Of(v)
				changed, err := fn(*tags)
				*tags = changed
				return err
			})
			return store.NotFoundAs(err, k.ID.NotFound(id))
		},
		List: func(r store.Reader, sc Scope) []TaggedResource {
			items := k.All(r, sc.All())
			out := make([]TaggedResource, 0, len(items))
			for _, it := range items {
				out = append(out, TaggedResource{k.id(it.Value), k.tags(it.Value)})
			}
			return out
		},
	}
}
