package autostorage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

const gib = 1 << 30

// classOf returns the class of a claim that waits for a volume of this driver, or nil.
func (r *run) classOf(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Annotations[provisionerOf] != Driver {
		return nil
	}
	class, ok := r.classes.Get(aws.ToString(claim.Spec.StorageClassName))
	if !ok || class.Provisioner != Driver || waits(class) && claim.Annotations[selectedNode] == "" {
		return nil
	}
	return class
}

// waits reports whether the volumes of a class are created when a pod has been scheduled.
func waits(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// nameOf returns the name of the volume of a claim.
func nameOf(claim types.UID) string { return "pvc-" + string(claim) }

// provision creates the volume of a claim. Kubernetes then binds them.
func (r *run) provision(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	name := nameOf(claim.UID)
	if _, ok := r.volumes.Get(name); ok {
		delete(r.made, claim.UID)
		return nil
	}
	v, err := r.create(name, claim, class)
	if errors.Is(err, base.ErrSoon) {
		return err
	}
	if err != nil {
		r.event(claim, corev1.EventTypeWarning, "ProvisioningFailed", fmt.Sprintf("failed to provision volume with StorageClass %q: %v", class.Name, err))
		return err
	}
	if _, err := r.ses.Client.CoreV1().PersistentVolumes().Create(r.ctx, v, metav1.CreateOptions{FieldManager: plane.FieldManager}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the volume %s: %w", name, err)
	}
	delete(r.made, claim.UID)
	r.event(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume "+name)
	return nil
}

// create creates a volume in EC2, and returns it as the cluster's object.
func (r *run) create(name string, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (*corev1.PersistentVolume, error) {
	in, fsType, err := r.request(name, claim, class)
	if err != nil {
		return nil, err
	}
	id := r.made[claim.UID]
	if id == "" {
		zone, err := r.zone(claim, class)
		if err != nil {
			return nil, err
		}
		if in.SnapshotId, err = r.snapshotOf(claim); err != nil {
			return nil, err
		}
		in.AvailabilityZone = &zone
		r.begin(claim, "Provisioning", fmt.Sprintf("External provisioner is provisioning volume for claim \"%s/%s\"", claim.Namespace, claim.Name), "ProvisioningFailed")
		role, err := r.role()
		if err != nil {
			return nil, err
		}
		made, err := r.s.Volumes.CreateVolume(role, in)
		// An earlier attempt had another zone or size. As upstream does, the next token is tried.
		for n := 2; awserr.CodeOf(err) == "IdempotentParameterMismatch" && n < maxTokens; n++ {
			in.ClientToken = token(name + "-" + strconv.Itoa(n))
			made, err = r.s.Volumes.CreateVolume(role, in)
		}
		if err != nil {
			return nil, status("Internal", "Could not create volume %q: could not create volume in EC2: %v", name, err)
		}
		id = aws.ToString(made.VolumeId)
		r.made[claim.UID] = id
	}
	found, err := r.describe(id)
	switch {
	case awserr.CodeOf(err) == "InvalidVolume.NotFound": // a user has deleted it
		delete(r.made, claim.UID)
		return nil, err
	case err != nil:
		return nil, err
	case found.State == ec2types.VolumeStateCreating:
		return nil, base.ErrSoon
	}
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	in1 := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: Driver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(aws.ToInt32(found.Size))*gib, resource.BinarySI)}, AccessModes: claim.Spec.AccessModes,
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
			PersistentVolumeReclaimPolicy: policy, StorageClassName: class.Name, MountOptions: class.MountOptions, VolumeMode: claim.Spec.VolumeMode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: id, FSType: fsType}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{in1(computeLabel, computeAuto), in1(corev1.LabelTopologyZone, aws.ToString(found.AvailabilityZone))},
			}}}},
		},
	}
	if policy == corev1.PersistentVolumeReclaimDelete {
		v.Finalizers = []string{volumeFinalizer}
	}
	return v, nil
}

// maxTokens bounds the client tokens that are tried for a name.
const maxTokens = 10

func token(name string) *string {
	sum := sha256.Sum256([]byte(name))
	return new(hex.EncodeToString(sum[:]))
}

// describe returns a volume.
func (r *run) describe(id string) (*ec2types.Volume, error) {
	out, err := r.s.Volumes.DescribeVolumes(r.svc, &awsec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil {
		return nil, err
	}
	if len(out.Volumes) != 1 {
		return nil, awserr.New("InvalidVolume.NotFound", "The volume '"+id+"' does not exist.")
	}
	return &out.Volumes[0], nil
}

// ownTags are those of all volumes and snapshots. The managed policy names them.
func (r *run) ownTags(kind, name string) map[string]string {
	return map[string]string{
		automode.TagCluster: r.key.ID, kind: name, Driver + "/cluster": "true",
		"Name": r.key.ID + "-dynamic-" + name, "kubernetes.io/cluster/" + r.key.ID: "owned",
	}
}

// request returns the volume that a claim asks for, without its zone and its snapshot.
func (r *run) request(name string, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (*awsec2.CreateVolumeInput, string, error) {
	if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		return nil, "", status("InvalidArgument", "volumeMode Block is not implemented by Drydock: its machines have no block devices")
	}
	for _, m := range claim.Spec.AccessModes {
		if m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod {
			return nil, "", status("InvalidArgument", "Volume capabilities %s not supported. Only AccessModes[ReadWriteOnce] supported.", m)
		}
	}
	want := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	size := (want.Value() + gib - 1) / gib
	if limit, ok := claim.Spec.Resources.Limits[corev1.ResourceStorage]; ok && size*gib > limit.Value() {
		return nil, "", status("InvalidArgument", "After round-up, volume size exceeds the limit specified")
	}
	tags := r.ownTags("CSIVolumeName", name)
	tags["KubernetesCluster"] = r.key.ID
	tags["kubernetes.io/created-for/pvc/name"], tags["kubernetes.io/created-for/pvc/namespace"], tags["kubernetes.io/created-for/pv/name"] = claim.Name, claim.Namespace, name
	in := &awsec2.CreateVolumeInput{Size: new(int32(min(size, 1<<20))), VolumeType: ec2types.VolumeTypeGp3, ClientToken: token(name)}
	fsType, perGB, grow := "ext4", int64(0), false
	for _, key := range slices.Sorted(maps.Keys(class.Parameters)) {
		value := class.Parameters[key]
		number := func() (int32, error) {
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return 0, status("InvalidArgument", "Could not parse invalid %s: %v", key, err)
			}
			return int32(n), nil
		}
		var n int32
		var err error
		switch low := strings.ToLower(key); {
		case low == "type":
			in.VolumeType = ec2types.VolumeType(value)
		case low == "iops":
			n, err = number()
			in.Iops = &n
		case low == "iopspergb":
			n, err = number()
			perGB = int64(n)
		case low == "allowautoiopspergbincrease":
			grow = value == "true"
		case low == "throughput":
			n, err = number()
			in.Throughput = &n
		case low == "encrypted":
			in.Encrypted = new(value == "true")
		case low == "kmskeyid":
			in.KmsKeyId = &value
		case low == "fstype" || low == "csi.storage.k8s.io/fstype":
			if fsType = value; value != "ext4" {
				err = status("InvalidArgument", "file system %q is not supported: Drydock formats volumes with ext4", value)
			}
		case strings.HasPrefix(low, "tagspecification"):
			k, v, ok := strings.Cut(value, "=")
			if !ok || strings.Contains(value, "{{") {
				err = status("InvalidArgument", "Invalid tag %q: Drydock supports the form key=value", value)
			}
			tags[k] = v
		default:
			err = status("InvalidArgument", "Invalid parameter key %s for CreateVolume: Drydock supports those in docs/auto-mode.md", key)
		}
		if err != nil {
			return nil, "", err
		}
	}
	if perGB > 0 && in.Iops == nil {
		iops := perGB * size
		if least := map[ec2types.VolumeType]int64{ec2types.VolumeTypeGp3: 3000, ec2types.VolumeTypeIo1: 100, ec2types.VolumeTypeIo2: 100}[in.VolumeType]; grow {
			iops = max(iops, least)
		}
		in.Iops = new(int32(min(iops, 256000))) // EC2 refuses what its type does not have
	}
	in.TagSpecifications = base.EC2Tags(ec2types.ResourceTypeVolume, tags)
	return in, fsType, nil
}

// zone returns the zone of a new volume: that of the node that Kubernetes has selected, or one of those that nodes of EKS Auto
// Mode are in. The class may restrict both.
func (r *run) zone(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (string, error) {
	if waits(class) {
		name := claim.Annotations[selectedNode]
		n := r.nodeNamed(name)
		switch {
		case n == nil:
			return "", r.reschedule(claim, name)
		case !allowed(class, n):
			return "", fmt.Errorf("error generating accessibility requirements: selected node '%s' topology '%v' is not in allowed topologies: %v", name, topology(n), class.AllowedTopologies)
		}
		return n.Labels[corev1.LabelTopologyZone], nil
	}
	zones := map[string]bool{}
	for _, n := range r.ses.Nodes().All() {
		if n.Labels[computeLabel] == computeAuto && allowed(class, n) {
			zones[n.Labels[corev1.LabelTopologyZone]] = true
		}
	}
	if len(zones) == 0 {
		return "", errors.New("error generating accessibility requirements: no available topology found")
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(claim.Name)) // never fails
	all := slices.Sorted(maps.Keys(zones))
	return all[h.Sum32()%uint32(len(all))], nil //nolint:gosec // a few zones
}

// reschedule returns why the selected node of a claim cannot have its volume. If the node no longer exists, the claim loses it, so
// that Kubernetes selects another.
// https://github.com/kubernetes-sigs/sig-storage-lib-external-provisioner (ProvisioningReschedule)
func (r *run) reschedule(claim *corev1.PersistentVolumeClaim, node string) error {
	_, err := r.ses.Client.CoreV1().Nodes().Get(r.ctx, node, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("error generating accessibility requirements: CSINode %s does not contain driver %s", node, Driver)
	}
	return cmp.Or(r.patch(r.ctx, claim, map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{selectedNode: nil}, "resourceVersion": claim.ResourceVersion,
	}}), err)
}

// topology returns the labels of a node that a class may restrict.
func topology(n *corev1.Node) map[string]string {
	zone := n.Labels[corev1.LabelTopologyZone]
	return map[string]string{computeLabel: n.Labels[computeLabel], corev1.LabelTopologyZone: zone, "topology." + Driver + "/zone": zone}
}

// allowed reports whether a class allows volumes for a node.
func allowed(class *storagev1.StorageClass, n *corev1.Node) bool {
	labels := topology(n)
	return len(class.AllowedTopologies) == 0 || slices.ContainsFunc(class.AllowedTopologies, func(t corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			return !slices.Contains(e.Values, labels[e.Key])
		})
	})
}

// deleteVolume deletes a volume in EC2 if it exists.
func (r *run) deleteVolume(id string) error {
	_, err := r.s.Volumes.DeleteVolume(r.svc, &awsec2.DeleteVolumeInput{VolumeId: &id})
	if awserr.CodeOf(err) == "InvalidVolume.NotFound" {
		return nil
	}
	return err
}

// abandon deletes a volume in EC2 whose claim was deleted before the cluster had the volume. If the cluster does have it, because
// only the response to its creation was lost, its reclaim policy decides.
func (r *run) abandon(claim types.UID, id string) error {
	_, err := r.ses.Client.CoreV1().PersistentVolumes().Get(r.ctx, nameOf(claim), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = r.deleteVolume(id)
	}
	if err == nil {
		delete(r.made, claim)
	}
	return err
}

// reclaim deletes a volume whose claim is gone, if its policy says so.
func (r *run) reclaim(v *corev1.PersistentVolume) error {
	deleting := v.DeletionTimestamp != nil
	switch {
	case v.Annotations[provisionedBy] != Driver || v.Status.Phase == corev1.VolumeBound:
		return nil
	case v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		if deleting {
			return r.setFinalizer(r.ctx, v, volumeFinalizer, false, nil)
		}
		return nil
	case !deleting && v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed:
		return nil
	case deleting && !slices.Contains(v.Finalizers, volumeFinalizer):
		return nil
	}
	for _, a := range r.attachments.All() {
		if aws.ToString(a.Spec.Source.PersistentVolumeName) == v.Name {
			r.event(v, corev1.EventTypeWarning, "VolumeFailedDelete", fmt.Sprintf("persistentvolume %s is still attached to node %s", v.Name, a.Spec.NodeName))
			return nil // the end of the attachment starts the next pass
		}
	}
	if err := r.deleteVolume(v.Spec.CSI.VolumeHandle); err != nil {
		r.event(v, corev1.EventTypeWarning, "VolumeFailedDelete", status("Internal", "Could not delete volume ID %q: DeleteDisk could not delete volume: %v", v.Spec.CSI.VolumeHandle, err).Error())
		return err
	}
	if !deleting {
		if err := r.ses.Client.CoreV1().PersistentVolumes().Delete(r.ctx, v.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return nil // the finalizer goes when the API server says that the object is being deleted
	}
	return r.setFinalizer(r.ctx, v, volumeFinalizer, false, nil)
}

// expand enlarges a volume whose claim has grown. The node enlarges its file system.
func (r *run) expand(v *corev1.PersistentVolume) error {
	ref := v.Spec.ClaimRef
	if ref == nil || v.Status.Phase != corev1.VolumeBound || v.DeletionTimestamp != nil {
		return nil
	}
	claim, ok := r.claims.Get(ref.Namespace + "/" + ref.Name)
	if !ok || claim.UID != ref.UID || claim.Status.Phase != corev1.ClaimBound {
		return nil
	}
	want, has, shown := claim.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(has) > 0 {
		size := int32(min((want.Value()+gib-1)/gib, 1<<20))
		r.begin(claim, "Resizing", "External resizer is resizing volume "+v.Name, "VolumeResizeFailed")
		if err := r.modify(v.Spec.CSI.VolumeHandle, size); err != nil {
			if !errors.Is(err, base.ErrSoon) {
				r.event(claim, corev1.EventTypeWarning, "VolumeResizeFailed", fmt.Sprintf("resize volume %q by resizer %q failed: %v", v.Name, Driver, status("Internal", "Could not resize volume %q: %v", v.Spec.CSI.VolumeHandle, err)))
			}
			return err
		}
		has = *resource.NewQuantity(int64(size)*gib, resource.BinarySI)
		if err := r.patch(r.ctx, v, map[string]any{"spec": map[string]any{"capacity": map[string]string{"storage": has.String()}}}); err != nil {
			return err
		}
	}
	if shown.Cmp(has) >= 0 {
		return nil
	}
	if r.onSimulatedNode(v) {
		r.event(claim, corev1.EventTypeNormal, "VolumeResizeSuccessful", "Resize volume succeeded")
		return r.patch(r.ctx, claim, map[string]any{"status": map[string]any{
			"capacity": map[string]string{"storage": has.String()}, "conditions": nil, "allocatedResourceStatuses": nil, "allocatedResources": map[string]string{"storage": has.String()},
		}}, "status")
	}
	if slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending
	}) {
		return nil
	}
	r.event(claim, corev1.EventTypeNormal, "FileSystemResizeRequired", "Require file system resize of volume on node")
	return r.patch(r.ctx, claim, map[string]any{"status": map[string]any{
		"allocatedResources": map[string]string{"storage": has.String()}, "allocatedResourceStatuses": map[string]string{"storage": string(corev1.PersistentVolumeClaimNodeResizePending)},
		"conditions": []any{map[string]any{
			"type": string(corev1.PersistentVolumeClaimFileSystemResizePending), "status": "True", "lastTransitionTime": timestamp(r.s.Now()),
			"message": "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
		}},
	}}, "status")
}

// modify makes a volume as large as size, in GiB. It returns base.ErrSoon until EC2 has begun.
func (r *run) modify(id string, size int32) error {
	v, err := r.describe(id)
	if err != nil {
		return err
	}
	out, err := r.s.Volumes.DescribeVolumesModifications(r.svc, &awsec2.DescribeVolumesModificationsInput{VolumeIds: []string{id}})
	if err != nil && awserr.CodeOf(err) != "InvalidVolumeModification.NotFound" {
		return err
	}
	if out != nil {
		for _, m := range out.VolumesModifications {
			if m.ModificationState == ec2types.VolumeModificationStateModifying && aws.ToInt32(m.TargetSize) >= size {
				return base.ErrSoon
			}
		}
	}
	if aws.ToInt32(v.Size) >= size {
		return nil
	}
	role, err := r.role()
	if err != nil {
		return err
	}
	if _, err := r.s.Volumes.ModifyVolume(role, &awsec2.ModifyVolumeInput{VolumeId: &id, Size: &size}); err != nil {
		return err
	}
	return base.ErrSoon
}
