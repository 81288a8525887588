package addon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
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
// called before the first object is applied. APIs are left to offer.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateAddon.html
func applyAll(ctx context.Context, in plane.Objects, objects []*unstructured.Unstructured, resolve ekstypes.ResolveConflicts, update bool, begin func() error) error {
	_, objects = splitAPIs(objects)
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
		conflicts, own, err := findConflicts(ctx, in, objects)
		switch {
		case err != nil:
			return err
		case len(conflicts) == 0:
			return apply(plane.ApplyOptions{Force: own})
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

// findConflicts returns, for each object, the fields that others have set to different values. own reports whether EKS itself set
// some of them without server-side apply, as in the copied objects of a twin.
func findConflicts(ctx context.Context, in plane.Objects, objects []*unstructured.Unstructured) (found map[*unstructured.Unstructured][]string, own bool, err error) {
	var mu sync.Mutex
	found = map[*unstructured.Unstructured][]string{}
	err = plane.Each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		err := in.Apply(ctx, o, plane.ApplyOptions{DryRun: true})
		if apierrors.IsNotFound(err) {
			return nil // its namespace or kind does not exist yet, so nothing can conflict
		}
		if fields, ours := conflictFields(err); len(fields) > 0 || ours {
			mu.Lock()
			defer mu.Unlock()
			own = own || ours
			if len(fields) > 0 {
				found[o] = fields
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("applying %s: %w", plane.Describe(o), err)
		}
		return nil
	})
	return found, own, err
}

// conflictFields returns the fields named by a conflict error that managers other than EKS have set. ours reports whether it names
// some that EKS has set.
func conflictFields(err error) (out []string, ours bool) {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil, false
	}
	for _, c := range status.Status().Details.Causes {
		switch {
		case c.Type != metav1.CauseTypeFieldManagerConflict:
		case strings.HasPrefix(c.Message, `conflict with "`+plane.FieldManager+`"`):
			ours = true
		case !slices.Contains(out, c.Field):
			out = append(out, c.Field)
		}
	}
	return out, ours
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

// removeField removes the field at a path in the API server's notation, such as
// .spec.template.spec.containers[name="coredns"].image, and reports whether it existed. Field names
// may contain dots themselves: .metadata.labels.a.b/c.
func removeField(o any, path string) bool {
	removed, _ := without(o, path)
	return removed
}

// without returns a value with a field removed.
func without(o any, path string) (removed bool, rest any) {
	switch o := o.(type) {
	case map[string]any:
		for key, value := range o {
			after, ok := strings.CutPrefix(path, "."+key)
			switch {
			case !ok:
			case after == "":
				delete(o, key)
				return true, o
			case after[0] == '.' || after[0] == '[':
				if removed, rest := without(value, after); removed {
					o[key] = rest
					return true, o
				}
			}
		}
	case []any:
		selector := itemRE.FindString(path)
		if selector == "" {
			return false, o
		}
		i := slices.IndexFunc(o, func(item any) bool { return selects(selector, item) })
		switch after := path[len(selector):]; {
		case i < 0:
		case after == "":
			return true, slices.Delete(o, i, i+1)
		default:
			if removed, rest := without(o[i], after); removed {
				o[i] = rest
				return true, o
			}
		}
	}
	return false, o
}

var (
	itemRE = regexp.MustCompile(`^\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\]`)
	keyRE  = regexp.MustCompile(`(\w*)=("(?:[^"\\]|\\.)*"|[^,\]]*)`)
)

// selects reports whether a selector, [containerPort=53,protocol="UDP"] or [="v"], matches a list
// item.
func selects(selector string, item any) bool {
	keys := keyRE.FindAllStringSubmatch(selector, -1)
	for _, k := range keys {
		value := item
		if k[1] != "" {
			m, ok := item.(map[string]any)
			if !ok {
				return false
			}
			value = m[k[1]]
		}
		text := fmt.Sprint(value)
		if s, ok := value.(string); ok {
			text = fmt.Sprintf("%q", s)
		}
		if text != k[2] {
			return false
		}
	}
	return len(keys) > 0
}

// prune removes the objects that an update drops from the add-on, except those that a user manages.
func (w *work) prune(ctx context.Context, now []*unstructured.Unstructured) error {
	if w.rec.Next == nil || !w.rec.Had {
		return nil
	}
	before, err := objectsOf(w.a, w.rec.Spec(), w.cluster)
	if err != nil {
		w.s.Log.Warn("cannot determine which objects an add-on had before", "addon", w.key.String(), "err", err) // the version was installed by another Drydock release
		return nil
	}
	overwrite := w.rec.Resolve == ekstypes.ResolveConflictsOverwrite
	return w.removeOurs(ctx, gone(before, now), overwrite)
}

// removeOurs removes the objects that EKS applied. It keeps those that a user manages as well,
// unless shared is true.
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
		// got has a UID, so a newer object of the same name is not deleted.
		if err := w.objects.Delete(ctx, got); err != nil {
			return fmt.Errorf("removing %s: %w", plane.Describe(o), err)
		}
		return nil
	})
}

// managers reports whether EKS manages fields of an object, and whether anyone else manages fields
// of its content, that is, other than metadata and status.
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
		return false // the API server writes no other format
	}
	return slices.ContainsFunc([]string{"f:spec", "f:data", "f:binaryData"}, func(f string) bool { return fields[f] != nil })
}
