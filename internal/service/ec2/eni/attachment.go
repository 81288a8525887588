package eni

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// AttachNetworkInterface attaches an interface to an instance in the same zone.
func (s *Service) AttachNetworkInterface(ctx context.Context, in *awsec2.AttachNetworkInterfaceInput) (*awsec2.AttachNetworkInterfaceOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.DeviceIndex == nil {
		return nil, ec2err.Missing("deviceIndex")
	}
	var at record.InterfaceAttachment
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		e, err := resource.Get(tx, record.NetworkInterfaces, sc, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		i, err := resource.Get(tx, record.Instances, sc, aws.ToString(in.InstanceId))
		if err != nil {
			return err
		}
		switch {
		case e.Attachment.ID != "":
			return ec2err.InterfaceInUse("Interface: [%s] in use.", e.ID)
		case i.State != record.Running && i.State != record.Stopped && i.State != record.Pending:
			return ec2err.InstanceState(i.ID, "attached to")
		case e.Zone != i.Zone:
			return ec2err.InvalidParameterValue("You may not attach a network interface to an instance if they are not in the same availability zone")
		}
		used, err := deviceIndexes(tx, sc, i)
		if err != nil {
			return err
		}
		if used[*in.DeviceIndex] {
			return ec2err.InvalidParameterValue("Instance '%s' already has an interface attached at device index '%d'.", i.ID, *in.DeviceIndex)
		}
		typ, _ := instancetypes.Lookup(i.Type)
		if len(i.Interfaces) >= typ.ENIs {
			return ec2err.TooManyInterfaces(len(i.Interfaces)+1, i.Type)
		}
		at = record.InterfaceAttachment{ID: ids.Resource("eni-attach"), InstanceID: i.ID, DeviceIndex: *in.DeviceIndex, CardIndex: aws.ToInt32(in.NetworkCardIndex), Time: s.Now()}
		e.Attachment = at
		if err := e.NoteInstance(tx, sc); err != nil {
			return err
		}
		i.Interfaces = append(slices.Clone(i.Interfaces), e.ID)
		if err := record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e); err != nil {
			return err
		}
		return record.Instances.Put(tx, sc.Key(i.ID), i)
	})
	return &awsec2.AttachNetworkInterfaceOutput{AttachmentId: aws.String(at.ID), NetworkCardIndex: aws.Int32(at.CardIndex)}, err
}

func deviceIndexes(r store.Reader, sc resource.Scope, i record.Instance) (map[int32]bool, error) {
	out := map[int32]bool{}
	for _, id := range i.Interfaces {
		e, err := record.NetworkInterfaces.Get(r, sc.Key(id))
		if err != nil {
			return nil, fmt.Errorf("interface %s of %s: %w", id, i.ID, err)
		}
		out[e.Attachment.DeviceIndex] = true
	}
	return out, nil
}

// DetachNetworkInterface detaches any interface but an instance's primary one.
func (s *Service) DetachNetworkInterface(ctx context.Context, in *awsec2.DetachNetworkInterfaceInput) (*awsec2.DetachNetworkInterfaceOutput, error) {
	sc := resource.ScopeOf(ctx)
	id := aws.ToString(in.AttachmentId)
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		found := resource.List(tx, record.NetworkInterfaces, sc, func(e record.NetworkInterface) bool { return e.Attachment.ID == id && id != "" })
		if len(found) == 0 {
			return ec2err.New("InvalidAttachmentID.NotFound", "The network interface attachment '%s' does not exist.", id)
		}
		e := found[0]
		if e.RequesterID != "" && e.Attachment.InstanceID == "" {
			return ec2err.New("OperationNotPermitted", "You are not allowed to manage '%s' attachments.", "ela-attach")
		}
		if e.Attachment.DeviceIndex == 0 {
			return ec2err.New("OperationNotPermitted", "The network interface at device index 0 and networkCard index 0 cannot be detached.")
		}
		i, err := resource.Get(tx, record.Instances, sc, e.Attachment.InstanceID)
		if err != nil {
			return err
		}
		i.Interfaces = slices.DeleteFunc(slices.Clone(i.Interfaces), func(x string) bool { return x == e.ID })
		if err := Detach(&e, tx, sc); err != nil {
			return err
		}
		if err := record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e); err != nil {
			return err
		}
		// Before the commit, after which answers of DescribeNetworkInterfaces are reused.
		s.detached.add(sc, found[0], s.Now())
		return record.Instances.Put(tx, sc.Key(i.ID), i)
	})
	return &awsec2.DetachNetworkInterfaceOutput{}, err
}

// detachedVisible is how long an attachment is still described by its ID after it has ended. Terraform waits for the
// status detached, and takes an attachment that it does not find for one that has not appeared yet.
const detachedVisible = time.Minute

// detachments are the attachments that have just ended.
type detachments struct {
	mu  sync.Mutex
	all map[string]detachment // by attachment ID
}

type detachment struct {
	scope      resource.Scope
	iface      string
	attachment record.InterfaceAttachment
	at         time.Time
}

func (d *detachments) add(sc resource.Scope, e record.NetworkInterface, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.all, func(_ string, old detachment) bool { return now.Sub(old.at) > detachedVisible })
	if d.all == nil {
		d.all = map[string]detachment{}
	}
	d.all[e.Attachment.ID] = detachment{sc, e.ID, e.Attachment, now}
}

func (d *detachments) get(sc resource.Scope, id string, now time.Time) (detachment, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.all[id]
	return found, ok && found.scope == sc && now.Sub(found.at) <= detachedVisible
}

// describeDetached returns the interface of an attachment that has just ended, if that is what the filters ask for.
func (s *Service) describeDetached(sc resource.Scope, filters []ec2types.Filter) (ec2types.NetworkInterface, bool) {
	if len(filters) != 1 || aws.ToString(filters[0].Name) != "attachment.attachment-id" || len(filters[0].Values) != 1 {
		return ec2types.NetworkInterface{}, false
	}
	d, ok := s.detached.get(sc, filters[0].Values[0], s.Now())
	if !ok {
		return ec2types.NetworkInterface{}, false
	}
	e, err := record.NetworkInterfaces.Get(s.Store, sc.Key(d.iface))
	if err != nil || e.Attachment.ID != "" {
		return ec2types.NetworkInterface{}, false
	}
	e.Attachment = d.attachment
	out := s.sdkInterface(sc, e)
	out.Status, out.Attachment.Status = ec2types.NetworkInterfaceStatusAvailable, ec2types.AttachmentStatusDetached
	return out, true
}
