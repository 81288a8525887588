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
	List func(r store.Reader, sc Scope) ([]TaggedResource, error)
}

// A TaggedResource is the ID of a resource with its tags.
type TaggedResource struct {
	ID   string
	Tags tag.Set
}

// TaggedBy makes the resources of a collection taggable.
func TaggedBy[T any](kind ec2types.ResourceType, id IDKind, c store.Collection[T], of func(*T) (string, *tag.Set)) Taggable {
	return Taggable{
		ID: id, Kind: kind,
		Edit: func(tx *store.Tx, sc Scope, rid string, fn func(tag.Set) (tag.Set, error)) error {
			err := c.Update(tx, sc.Key(rid), func(v *T) error {
				_, tags := of(v)
				changed, err := fn(*tags)
				*tags = changed
				return err
			})
			if NotFound(err) {
				return id.NotFound(rid)
			}
			return err
		},
		List: func(r store.Reader, sc Scope) ([]TaggedResource, error) {
			items, err := c.List(r, sc.All())
			out := make([]TaggedResource, 0, len(items))
			for i := range items {
				id, tags := of(&items[i].Value)
				if len(*tags) > 0 {
					out = append(out, TaggedResource{id, *tags})
				}
			}
			return out, err
		},
	}
}

// Tagged makes a kind of resource taggable.
func Tagged[T any](kind ec2types.ResourceType, k KindOf[T]) Taggable {
	return TaggedBy(kind, k.ID, k.Records, k.Of)
}
