package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/autobalancing"
	"github.com/drydock-dev/drydock/internal/service/eks/autonodes"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// What `drydock why cluster` says about a cluster beside its nodes and its health.

// troubles are the errors of what EKS does by itself and repeats until it succeeds. They are not kept when the daemon
// restarts, because then everything is tried again.
type troubles struct {
	mu  sync.Mutex
	now map[string]trouble // by what was tried
}

// A trouble is the error of the last attempt, and the time of the first that failed.
type trouble struct {
	err   error
	since time.Time
}

// note records the outcome of an attempt at a time.
func (t *troubles) note(what string, err error, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.now, what)
		return
	}
	if t.now == nil {
		t.now = map[string]trouble{}
	}
	if old, ok := t.now[what]; ok {
		at = old.since
	}
	t.now[what] = trouble{err, at}
}

// forget discards the trouble with something: it has been given up, or starts over.
func (t *troubles) forget(what string) { t.note(what, nil, time.Time{}) }

// of returns the trouble with something. Its err is nil if all is well.
func (t *troubles) of(what string) trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now[what]
}

// UpdateNotes explains what EKS cannot do for a cluster at the moment, which updates are in progress, why the last one of a type
// has failed, what keeps add-ons, node groups, logins, logs and EKS Auto Mode from working, until when the last upgrade can be
// rolled back, and why the next change of the version would be refused. entriesKnown is false if not all access entries of the
// cluster are known, which can be so in a twin.
func (s *Service) UpdateNotes(ctx context.Context, cluster string, entriesKnown bool) ([]string, error) {
	if c, ok := record.Connected(s.Store, record.ClusterKey(awsapi.CallFrom(ctx), cluster)); ok {
		return []string{fmt.Sprintf("cluster %s is a connected cluster. It stays %s, because the agent that would connect it needs Systems Manager's hybrid activations, which Drydock does not have", cluster, c.Cluster.Status)}, nil
	}
	key, rec, err := s.Cluster(ctx, &cluster)
	if err != nil {
		return nil, err
	}
	var out []string
	if t := s.troubles.of(key.String()); t.err != nil {
		out = append(out, fmt.Sprintf("the cluster is %s, and EKS is retrying; the last attempt failed: %v", rec.Cluster.Status, t.err))
	}
	updates, err := s.versionNotes(ctx, key, rec)
	if err != nil {
		return nil, err
	}
	out = slices.Concat(out, updates, s.partNotes(key))
	if rec.PlatformTo != "" {
		out = append(out, "AWS is moving the cluster to platform version "+rec.PlatformTo)
	}
	if base.Usable(rec) != nil {
		return out, nil
	}
	out = append(out, s.stateNotes(key, rec)...)
	if autonodes.Enabled(&rec.Cluster) {
		ses, err := s.Sessions.Open(key, rec.Plane.ID)
		if err != nil {
			return nil, err
		}
		notes, err := autonodes.Notes(ctx, ses.Objects)
		if err != nil {
			notes = []string{"EKS Auto Mode's objects could not be read: " + err.Error()}
		}
		out = append(out, notes...)
		if notes, err = autobalancing.Notes(ctx, ses); err != nil {
			notes = []string{"the load balancers of EKS Auto Mode could not be read: " + err.Error()}
		}
		out = append(out, notes...)
	}
	for _, p := range record.IdentityProviders.All(s.Store, key.AllBelow()) {
		if adopted, err := s.ControlPlanes.AdoptedIdentityProvider(ctx, rec.Plane.ID); err == nil && !adopted {
			issuer := aws.ToString(p.Value.Config.IssuerUrl)
			out = append(out, fmt.Sprintf("users of the identity provider %s cannot log in yet: the API server on this machine cannot fetch %s/.well-known/openid-configuration or the signing keys, and retries every 10 seconds", aws.ToString(p.Value.Config.IdentityProviderConfigName), strings.TrimSuffix(issuer, "/")))
		}
	}
	for _, c := range record.Capabilities.All(s.Store, key.AllBelow()) { // see decision 102
		name, kind := aws.ToString(c.Value.Capability.CapabilityName), c.Value.Capability.Type
		if c.Value.Capability.Status == ekstypes.CapabilityStatusDegraded {
			out = append(out, fmt.Sprintf("the capability %s is DEGRADED: Drydock runs no controller for %s, so nothing reconciles its resources", name, kind))
		} else { // of a twin
			out = append(out, fmt.Sprintf("nothing reconciles the resources of the capability %s here: Drydock runs no controller for %s", name, kind))
		}
	}
	if last := rec.Upgraded; last != nil {
		to, _ := eksversions.Lookup(last.From)
		note := fmt.Sprintf("the cluster can be rolled back to Kubernetes %s until %s", last.From, last.At.Add(rollbackWindow).Format(time.RFC3339))
		if err := s.checkRollback(rec, to, nil); err != nil {
			note = fmt.Sprintf("a rollback to Kubernetes %s would be refused: %s", last.From, awserr.TextOf(err))
		}
		out = append(out, note)
	}
	ev, err := s.gather(ctx, key, rec)
	if err != nil {
		return nil, err
	}
	s.gatherRollback(ctx, key, ev)
	out = append(out, s.authorityNotes(rec, ev)...)
	if ev.unknown == "" {
		out = append(out, s.accessNotes(ctx, key, rec, entriesKnown)...)
	}
	if next := nextVersion(*rec.Cluster.Version); offered(next) {
		if behind := ev.nodegroupsBehind(next); len(behind) > 0 {
			out = append(out, fmt.Sprintf("an upgrade to Kubernetes %s would be refused, even if forced: nodegroups %s are too old", next, strings.Join(behind, ", ")))
		}
	}
	what := map[ekstypes.Category]string{ekstypes.CategoryUpgradeReadiness: "an upgrade", ekstypes.CategoryRollbackReadiness: "a rollback"}
	for _, i := range ev.insights() {
		if slices.Contains(failing[i.Category], i.InsightStatus.Status) && offered(aws.ToString(i.KubernetesVersion)) {
			out = append(out, fmt.Sprintf("%s to Kubernetes %s would be refused unless forced: %s: %s", what[i.Category], aws.ToString(i.KubernetesVersion), *i.Name, *i.InsightStatus.Reason))
		}
	}
	return out, nil
}

// versionNotes explains the last update of each kind.
func (s *Service) versionNotes(ctx context.Context, key store.Key, rec record.Cluster) ([]string, error) {
	var out []string
	for _, last := range s.lastUpdates(key) {
		what := string(last.Update.Type)
		switch {
		case last.Nodegroup != "":
			what += " of node group " + last.Nodegroup
		case last.Addon != "":
			what += " of add-on " + last.Addon
		case last.Capability != "":
			what += " of capability " + last.Capability
		case last.Version == *rec.Cluster.Version:
			continue
		case last.Version != "":
			what = "update to Kubernetes " + last.Version
		}
		notes := notesOf(what, &last.Update)
		if r := rec.Rollback; r != nil && r.Update == *last.Update.Id && last.Update.Status == ekstypes.UpdateStatusInProgress && rec.Cluster.Status == ekstypes.ClusterStatusActive {
			left, err := s.auto.Newer(ctx, key, r.Version)
			if err != nil {
				return nil, err
			}
			notes[0] += fmt.Sprintf(": %d nodes of EKS Auto Mode have a newer version and are replaced first, until %s; disruption budgets of node pools, pod disruption budgets and karpenter.sh/do-not-disrupt delay that", left, r.Until.Format(time.RFC3339))
		}
		out = append(out, notes...)
	}
	return out, nil
}

// partNotes explains the add-ons and node groups of a cluster that have issues. `drydock doctor` has their fixes.
func (s *Service) partNotes(key store.Key) []string {
	var out []string
	for _, i := range record.Addons.All(s.Store, key.AllBelow()) {
		if a := &i.Value.Addon; a.Health != nil {
			for _, issue := range a.Health.Issues {
				out = append(out, fmt.Sprintf("the add-on %s is %s: %s: %s", *a.AddonName, a.Status, issue.Code, aws.ToString(issue.Message)))
			}
		}
	}
	for _, i := range record.Nodegroups.All(s.Store, key.AllBelow()) {
		if g := &i.Value.Nodegroup; g.Health != nil {
			for _, issue := range g.Health.Issues {
				out = append(out, fmt.Sprintf("the node group %s is %s: %s: %s", *g.NodegroupName, g.Status, issue.Code, aws.ToString(issue.Message)))
			}
		}
	}
	return out
}

// supportNotice is how long before the end of a version's support it is announced.
const supportNotice = 60 * 24 * time.Hour

// stateNotes explains what follows from the records of a usable cluster.
func (s *Service) stateNotes(key store.Key, rec record.Cluster) []string {
	var out []string
	if rec.HalfEncrypted {
		out = append(out, fmt.Sprintf("the control plane encrypts new data with %s, but not all older data yet: aws eks associate-encryption-config with the same key encrypts the rest", rec.KeyARN()))
	}
	if t := s.troubles.of(rec.Plane.ID); t.err != nil && len(enabledLogs(rec.Cluster.Logging)) > 0 {
		out = append(out, fmt.Sprintf("since %s the logs of the control plane have not reached the log group %s: %v", t.since.Format(time.RFC3339), logGroup(key.ID), t.err))
	}
	if shift, err := record.ZonalShifts.Get(s.Store, key); err == nil && shift.UID == rec.UID {
		out = append(out, fmt.Sprintf("a zonal shift away from %s is in force: its nodes are cordoned, and node groups launch in other zones only, until it expires or aws arc-zonal-shift cancel-zonal-shift ends it", shift.Zone))
	}
	if end := endOfSupport(rec); s.Timing.ClusterPlatform > 0 && !end.IsZero() {
		version, next, day := *rec.Cluster.Version, nextVersion(*rec.Cluster.Version), end.Format(time.DateOnly)
		switch left := end.Sub(s.Clock.Now()); {
		case left <= 0: // which lasts in a twin that is not moved
			out = append(out, fmt.Sprintf("the support of Kubernetes %s ended on %s: AWS upgrades the cluster to %s automatically", version, day, next))
		case left < supportNotice:
			out = append(out, fmt.Sprintf("AWS upgrades the cluster to Kubernetes %s automatically on %s, when the support of %s ends", next, day, version))
		}
	}
	return out
}

// authorityNotes explains which nodes do not trust the certificate authority that signs, or one that can be activated for the
// first time: those that are older. What is left of a failed, deleted or former authority needs no new nodes.
func (s *Service) authorityNotes(rec record.Cluster, ev *evidence) []string {
	var out []string
	for _, a := range rec.Authorities {
		signs := a.SigningStatus == ekstypes.CertificateAuthoritySigningStatusInUse
		next := a.SigningStatus == ekstypes.CertificateAuthoritySigningStatusNotUsed && a.ActivatedAt == nil &&
			(a.DistributionStatus == ekstypes.CertificateAuthorityDistributionStatusInProgress || a.DistributionStatus == ekstypes.CertificateAuthorityDistributionStatusComplete)
		if a.CreatedBy == ekstypes.CertificateAuthorityCreatedByEks || !signs && !next {
			continue
		}
		var older []string
		for _, n := range ev.nodes {
			if a.CreatedAt.After(n.CreationTimestamp.Time) {
				older = append(older, n.Name)
			}
		}
		switch {
		case len(older) == 0:
		case signs:
			out = append(out, fmt.Sprintf("nodes that are older than the certificate authority %s, which signs, do not trust the API server until they are replaced: %s", *a.Id, firstOf(older)))
		default:
			out = append(out, fmt.Sprintf("nodes are older than the certificate authority %s. Before you activate it, replace them and run aws eks update-kubeconfig: %s", *a.Id, firstOf(older)))
		}
	}
	return out
}

// firstOf lists the first of some names.
func firstOf(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// accessNotes explains why no IAM user or role can log in, and which mappings let nobody in. Users of an identity
// provider need no access entry.
func (s *Service) accessNotes(ctx context.Context, key store.Key, rec record.Cluster, entriesKnown bool) []string {
	var out []string
	if entriesKnown && !rec.UsesConfigMap() && !slices.ContainsFunc(record.AccessEntries.All(s.Store, key.AllBelow()), func(i store.Item[record.AccessEntry]) bool {
		return !i.Value.Managed && aws.ToString(i.Value.Entry.Type) == access.TypeStandard
	}) {
		of := fmt.Sprintf(" --cluster-name %s --principal-arn %s --region %s", key.ID, arn.IAM(key.Account, "role/ROLE"), key.Region)
		out = append(out, "no IAM user or role can log in: the authentication mode is API, and there is no access entry of type STANDARD. These commands let a role ROLE administer the cluster: aws eks create-access-entry"+of+
			" && aws eks associate-access-policy"+of+" --policy-arn arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy --access-scope type=cluster")
	}
	m, err := s.access.AuthMap(ctx, rec.Plane.ID)
	switch {
	case err != nil || !m.Exists():
	case !rec.UsesConfigMap():
		out = append(out, "the ConfigMap aws-auth has no effect: the authentication mode is API")
	case m.Invalid != nil:
		out = append(out, fmt.Sprintf("the ConfigMap aws-auth is invalid, so parts of it have no effect: %v", m.Invalid))
	}
	return out
}

// NodegroupUpdateNotes explains which updates of a node group are in progress, and why the last one of a type has failed.
func (s *Service) NodegroupUpdateNotes(ctx context.Context, cluster, nodegroup string) ([]string, error) {
	key, _, err := s.Cluster(ctx, &cluster)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, last := range s.lastUpdates(key) {
		if last.Nodegroup == nodegroup {
			out = append(out, notesOf(string(last.Update.Type), &last.Update)...)
		}
	}
	return out, nil
}

// notesOf explains an update that is in progress or has failed.
func notesOf(what string, u *ekstypes.Update) []string {
	at := u.CreatedAt.Format(time.RFC3339)
	switch u.Status {
	case ekstypes.UpdateStatusInProgress:
		return []string{fmt.Sprintf("the %s, requested at %s, is in progress", what, at)}
	case ekstypes.UpdateStatusFailed:
		var out []string
		for _, e := range u.Errors {
			out = append(out, fmt.Sprintf("the %s, requested at %s, failed: %s: %s", what, at, e.ErrorCode, aws.ToString(e.ErrorMessage)))
		}
		return out
	}
	return nil
}

// lastUpdates returns the last update of each kind of a cluster, and of each of its node groups, add-ons and capabilities, oldest first. A
// rollback is of the same kind as an upgrade.
func (s *Service) lastUpdates(key store.Key) []*record.Update {
	type of struct {
		kind                         ekstypes.UpdateType
		nodegroup, addon, capability string
	}
	last := map[of]*record.Update{}
	for _, i := range record.Updates.All(s.Store, key.AllBelow()) {
		up := &i.Value
		kind := of{up.Update.Type, up.Nodegroup, up.Addon, up.Capability}
		if up.Version != "" {
			kind.kind = ekstypes.UpdateTypeVersionUpdate
		}
		// No update begins while another one of the same is in progress, so that one is the last even if both began in the same second.
		old := last[kind]
		if old == nil || up.Update.Status == ekstypes.UpdateStatusInProgress ||
			old.Update.Status != ekstypes.UpdateStatusInProgress && up.Update.CreatedAt.After(*old.Update.CreatedAt) {
			last[kind] = up
		}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b *record.Update) int { return a.Update.CreatedAt.Compare(*b.Update.CreatedAt) })
}
