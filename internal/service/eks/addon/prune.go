package addon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// prune removes the objects that an update leaves out, but those that are a user's.
func (w *work) prune(ctx context.Context, now []*unstructured.Unstructured) error {
	if w.rec.Next == nil || !w.rec.Had {
		return nil
	}
	before, err := objectsOf(w.a, w.rec.Spec(), w.cluster)
	if err != nil {
		w.s.Log.Warn("cannot determine which objects an add-on had before", "addon", w.key.String(), "err", err) // another Drydock's version
		return nil
	}
	overwrite := w.rec.Resolve == ekstypes.ResolveConflictsOverwrite
	return w.removeOurs(ctx, gone(append(before, w.a.Unanswered()...), now), overwrite)
}

// removeOurs removes objects, but those that EKS did not apply, and those that are a
// user's as well, unless shared is true.
func (w *work) removeOurs(ctx context.Context, objects []*unstructured.Unstructured, shared bool) error {
	return plane.Each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		got, err := w.objects.Get(ctx, o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", plane.Describe(o), err)
		}
		if ours, theirs := managers(got); !ours || theirs && !shared {
			w.s.Log.Info("keeping an add-on's object that a user manages", "addon", w.key.String(), "object", plane.Describe(o))
			return nil
		}
		// The object that was read has a UID: a newer one with its name stays.
		if err := w.objects.Delete(ctx, got); err != nil {
			return fmt.Errorf("removing %s: %w", plane.Describe(o), err)
		}
		return nil
	})
}

// managers reports whether EKS manages fields of an object, and whether another does of
// what it is, not of its metadata or status.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
func managers(o *unstructured.Unstructured) (ours, theirs bool) {
	for _, m := range o.GetManagedFields() {
		if m.Manager == plane.FieldManager {
			ours = true
		} else if ownsContent(m) {
			theirs = true
		}
	}
	return ours, theirs
}

func ownsContent(m metav1.ManagedFieldsEntry) bool {
	var fields map[string]json.RawMessage
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
		return false // the API server writes no others
	}
	return slices.ContainsFunc([]string{"f:spec", "f:data", "f:binaryData"}, func(f string) bool { return fields[f] != nil })
}
