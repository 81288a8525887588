package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Rehearsed is what updating an add-on for a Kubernetes version did on a copy of its cluster.
type Rehearsed struct {
	// Name is the add-on's, From its version, and To the version that it was updated to; empty if it stays.
	Name, From, To string
	// Problem is why the update fails, and Fix what would help; empty if it does not fail.
	Problem, Fix string
	// Unknown says what Drydock does not know about the add-on, and so cannot judge; empty if there is nothing.
	Unknown string
}

// RehearseAddons updates the add-ons of a cluster on a copy of it, to the default versions for the Kubernetes version in rec, which the
// copy has. Add-ons stay if their versions are as new and support it. The network plugin, DNS and the proxy come
// first, in the order of AWS's guide.
// https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
func (s *Service) RehearseAddons(ctx context.Context, key store.Key, rec record.Cluster, ses *plane.Session) ([]Rehearsed, error) {
	select {
	case <-ses.Nodes().Synced:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	all := record.Addons.All(s.Store, key.AllBelow())
	first := []string{"kube-proxy", "coredns", "vpc-cni"}
	slices.SortFunc(all, func(a, b store.Item[record.Addon]) int {
		x, y := *a.Value.Addon.AddonName, *b.Value.Addon.AddonName
		return cmp.Or(cmp.Compare(slices.Index(first, y), slices.Index(first, x)), cmp.Compare(x, y))
	})
	var out []Rehearsed
	for _, i := range all {
		done := Rehearsed{Name: *i.Value.Addon.AddonName, From: aws.ToString(i.Value.Addon.AddonVersion)}
		if a, ok := addons.Lookup(done.Name); ok {
			w := &work{s: s, key: i.Key, rec: i.Value, a: a, cluster: clusterFacts(i.Key, rec, rec.Plane), objects: ses.Objects, nodes: ses.Nodes}
			if err := w.rehearse(ctx, key, rec, &done); err != nil {
				return out, fmt.Errorf("updating add-on %s on the copy: %w", done.Name, err)
			}
		} else {
			done.Unknown = "add-on " + done.Name + " is not in Drydock's catalogue"
		}
		out = append(out, done)
	}
	return out, nil
}

func (w *work) rehearse(ctx context.Context, cluster store.Key, rec record.Cluster, out *Rehearsed) error {
	version := *rec.Cluster.Version
	place := func(v string) int {
		return slices.IndexFunc(w.a.Versions, func(o addons.Version) bool { return o.Version == v })
	}
	at := place(out.From) // newest first
	supported := at >= 0 && slices.Contains(w.a.Versions[at].Kubernetes, version)
	to := w.a.Default(version)
	switch {
	case at < 0:
		out.Unknown = fmt.Sprintf("version %s of add-on %s is not in Drydock's catalogue, so it is unknown whether it supports Kubernetes %s", out.From, out.Name, version)
		return nil
	case supported && (to == nil || at <= place(to.Version)):
		return nil
	}
	if to == nil {
		if i := slices.IndexFunc(w.a.Versions, func(v addons.Version) bool { return slices.Contains(v.Kubernetes, version) }); i >= 0 {
			to = &w.a.Versions[i]
		}
	}
	if to == nil {
		out.Problem, out.Fix = "it has no version for Kubernetes "+version, "remove the add-on before the upgrade, or wait for a version"
		return nil
	}
	out.To = to.Version
	spec := w.rec.Spec()
	spec.Version = to.Version
	refused := check(cluster, rec, w.a, spec, "")
	if refused != nil && awserr.CodeOf(refused) == "" {
		return refused
	}
	if awserr.CodeOf(refused) == awserr.CodeNotImplemented {
		out.To, out.Unknown = "", fmt.Sprintf("what the update of add-on %s does is unknown: %s", out.Name, awserr.TextOf(refused))
		return nil
	}
	if refused != nil {
		out.Problem, out.Fix = "EKS refuses the update: "+awserr.TextOf(refused), "change its configuration values in the same update"
		return nil
	}
	before, _, err := w.health(ctx)
	if err != nil {
		return err
	}
	apply := func(resolve ekstypes.ResolveConflicts) error {
		objects, err := objectsOf(w.a, spec, w.cluster)
		if err != nil {
			return err
		}
		return applyAll(ctx, w.objects, objects, resolve, true, func() error { return nil })
	}
	err = apply("")
	if conflict, ok := errors.AsType[*conflictError](err); ok {
		out.Problem = "the update fails with " + string(ekstypes.AddonIssueCodeConfigurationConflict) + ": " + conflict.Error()
		out.Fix = fmt.Sprintf("aws eks update-addon --cluster-name %s --addon-name %s --addon-version %s --resolve-conflicts PRESERVE --region %s", cluster.ID, out.Name, out.To, cluster.Region)
		err = apply(ekstypes.ResolveConflictsPreserve) // so that the rest of the rehearsal has the new version
	}
	if issue := applyIssue(err); issue != nil {
		out.Problem = fmt.Sprintf("the update fails with %s: %s", issue.Code, *issue.Message)
		return nil
	}
	if err != nil || before != nil { // what was not healthy before says nothing about the update
		return err
	}
	issue, err := w.settle(ctx)
	if issue != nil && out.Problem == "" {
		out.Problem = fmt.Sprintf("its pods do not come up: %s: %s", issue.Code, *issue.Message)
	}
	return err
}

// rehearsedRollout is how long the pods of an updated add-on may take on a copy, where no image is pulled.
const rehearsedRollout = 15 * time.Second

// settle waits until the add-on is healthy, and returns its issue if it does not become so.
func (w *work) settle(ctx context.Context) (*ekstypes.AddonIssue, error) {
	for began := w.s.Clock.Now(); ; {
		issue, _, err := w.health(ctx)
		if err != nil || issue == nil || w.s.Clock.Since(began) > rehearsedRollout {
			return issue, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-w.s.Clock.After(step):
		}
	}
}
