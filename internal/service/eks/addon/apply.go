package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// objectsOf returns the objects of an add-on as specified by p.
func objectsOf(a *addons.AddOn, p record.AddonSpec, in addons.Cluster) ([]*unstructured.Unstructured, error) {
	v := a.Version(p.Version)
	if v == nil {
		return nil, fmt.Errorf("add-on %s has no version %s", a.Name, p.Version) // recorded by an older Drydock release
	}
	values, err := parseConfiguration(in.Name, a, v, p.Configuration)
	if err != nil {
		return nil, err
	}
	objects, err := a.Objects(v, in)
	if err != nil {
		return nil, err
	}
	if objects, err = a.Configure(v, objects, values); err != nil {
		return nil, err
	}
	if scaling, on := a.AutoScaling(values); on && p.Replicas > 0 {
		if err := setReplicas(objects, scaling, p.Replicas); err != nil {
			return nil, err
		}
	}
	objects = addons.Move(objects, p.NamespaceOrDefault())
	for _, o := range objects {
		if p.Role != "" && isServiceAccount(o) {
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[podidentity.AnnotationRole] = p.Role
			o.SetAnnotations(annotations)
		}
	}
	return objects, nil
}

func isServiceAccount(o *unstructured.Unstructured) bool { return o.GetKind() == "ServiceAccount" }

// gone returns the objects in before that are missing from now: those that an update drops. It
// never returns namespaces, since they may contain other objects.
func gone(before, now []*unstructured.Unstructured) []*unstructured.Unstructured {
	kept := map[string]bool{}
	id := func(o *unstructured.Unstructured) string {
		return o.GroupVersionKind().GroupKind().String() + " " + o.GetNamespace() + "/" + o.GetName()
	}
	for _, o := range now {
		kept[id(o)] = true
	}
	return slices.DeleteFunc(slices.Clone(before), func(o *unstructured.Unstructured) bool { return kept[id(o)] || isNamespace(o) })
}

func isNamespace(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" }

// A conflictError lists the fields of an add-on's objects that other field managers own.
type conflictError struct{ fields []string }

// [seen] eksctl-io/eksctl#5880, terraform-aws-modules/terraform-aws-eks#2829
func (e *conflictError) Error() string {
	return "Conflicts found when trying to apply. Will not continue due to resolve conflicts mode. Conflicts:\n" + strings.Join(e.fields, "\n")
}

// applyAll applies objects. Fields that others changed are overwritten with OVERWRITE, and kept
// with PRESERVE in an update. Otherwise a conflict is an error and nothing is applied. begin is
// called before the first object is applied.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateAddon.html
func applyAll(ctx context.Context, in plane.Objects, objects []*unstructured.Unstructured, resolve ekstypes.ResolveConflicts, update bool, begin func() error) error {
	apply := func(how plane.ApplyOptions) error {
		if err := begin(); err != nil {
			return err
		}
		return applyObjects(ctx, in, objects, how)
	}
	if resolve == ekstypes.ResolveConflictsOverwrite {
		return apply(plane.ApplyOptions{Force: true})
	}
	for {
		conflicts, err := findConflicts(ctx, in, objects)
		switch {
		case err != nil:
			return err
		case len(conflicts) == 0:
			return apply(plane.ApplyOptions{})
		case resolve != ekstypes.ResolveConflictsPreserve || !update:
			return &conflictError{describeConflicts(objects, conflicts)}
		}
		for o, fields := range conflicts {
			for _, f := range fields {
				if !removeField(o.Object, f) {
					return fmt.Errorf("%s: cannot leave %s as it is", plane.Describe(o), f)
				}
			}
		}
	}
}

func applyObjects(ctx context.Context, in plane.Objects, objects []*unstructured.Unstructured, how plane.ApplyOptions) error {
	return plane.Each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		if err := in.Apply(ctx, o, how); err != nil {
			return fmt.Errorf("applying %s: %w", plane.Describe(o), err)
		}
		return nil
	})
}

// findConflicts returns, for each object, the fields that others have set to different values.
func findConflicts(ctx context.Context, in plane.Objects, objects []*unstructured.Unstructured) (map[*unstructured.Unstructured][]string, error) {
	var mu sync.Mutex
	found := map[*unstructured.Unstructured][]string{}
	err := plane.Each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		err := in.Apply(ctx, o, plane.ApplyOptions{DryRun: true})
		if apierrors.IsNotFound(err) {
			return nil // its namespace or kind does not exist yet, so nothing can conflict
		}
		if fields := conflictFields(err); len(fields) > 0 {
			mu.Lock()
			defer mu.Unlock()
			found[o] = fields
			return nil
		}
		if err != nil {
			return fmt.Errorf("applying %s: %w", plane.Describe(o), err)
		}
		return nil
	})
	return found, err
}

// conflictFields returns the fields named by a conflict error.
func conflictFields(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict && !slices.Contains(out, c.Field) {
			out = append(out, c.Field)
		}
	}
	return out
}

// describeConflicts lists conflicts in the format of EKS: Deployment.apps coredns - .spec.replicas.
func describeConflicts(objects []*unstructured.Unstructured, conflicts map[*unstructured.Unstructured][]string) []string {
	var out []string
	for _, o := range objects {
		kind := o.GetKind()
		if group := o.GroupVersionKind().Group; group != "" {
			kind += "." + group
		}
		for _, f := range conflicts[o] {
			out = append(out, kind+" "+o.GetName()+" - "+f)
		}
	}
	return out
}
