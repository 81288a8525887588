package ec2

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// AttachNetworkInterface attaches an interface to an instance of its zone.
func (s *Service) AttachNetworkInterface(ctx context.Context, in *awsec2.AttachNetworkInterfaceInput) (*awsec2.AttachNetworkInterfaceOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.DeviceIndex == nil {
		return nil, errMissing("deviceIndex")
	}
	var at interfaceAttachment
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		e, err := get(tx, networkInterfaces, sc, networkInterfaceID, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		i, err := get(tx, instances, sc, instanceID, aws.ToString(in.InstanceId))
		if err != nil {
			return err
		}
		switch {
		case e.Attachment.ID != "":
			return errInterfaceInUse("Interface: [%s] in use.", e.ID)
		case i.State != stateRunning && i.State != stateStopped && i.State != statePending:
			return errInstanceState(i.ID, "attached to")
		case e.Zone != i.Zone:
			return errInvalidParameter("You may not attach a network interface to an instance if they are not in the same availability zone")
		}
		used, err := deviceIndexes(tx, sc, i)
		if err != nil {
			return err
		}
		if used[*in.DeviceIndex] {
			return errInvalidParameter("Instance '%s' already has an interface attached at device index '%d'.", i.ID, *in.DeviceIndex)
		}
		typ, _ := instancetypes.Lookup(i.Type)
		if len(i.Interfaces) >= typ.ENIs {
			return errTooManyInterfaces(len(i.Interfaces)+1, i.Type)
		}
		at = interfaceAttachment{ID: ids.Resource("eni-attach"), InstanceID: i.ID, DeviceIndex: *in.DeviceIndex, CardIndex: aws.ToInt32(in.NetworkCardIndex), Time: s.now()}
		e.Attachment = at
		if err := e.noteInstance(tx, sc); err != nil {
			return err
		}
		i.Interfaces = append(slices.Clone(i.Interfaces), e.ID)
		if err := networkInterfaces.Put(tx, sc.key(e.ID), e); err != nil {
			return err
		}
		return instances.Put(tx, sc.key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AttachNetworkInterfaceOutput{AttachmentId: aws.String(at.ID), NetworkCardIndex: aws.Int32(at.CardIndex)}, nil
}

func deviceIndexes(r store.Reader, sc scope, i instanceRecord) (map[int32]bool, error) {
	out := map[int32]bool{}
	for _, id := range i.Interfaces {
		e, err := networkInterfaces.Get(r, sc.key(id))
		if err != nil {
			return nil, fmt.Errorf("interface %s of %s: %w", id, i.ID, err)
		}
		out[e.Attachment.DeviceIndex] = true
	}
	return out, nil
}

// DetachNetworkInterface detaches any interface but an instance's primary one.
func (s *Service) DetachNetworkInterface(ctx context.Context, in *awsec2.DetachNetworkInterfaceInput) (*awsec2.DetachNetworkInterfaceOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.AttachmentId)
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		found, err := list(tx, networkInterfaces, sc, func(e networkInterfaceRecord) bool { return e.Attachment.ID == id && id != "" })
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return errf("InvalidAttachmentID.NotFound", "The network interface attachment '%s' does not exist.", id)
		}
		e := found[0]
		if e.RequesterID != "" && e.Attachment.InstanceID == "" {
			return errf("OperationNotPermitted", "You are not allowed to manage '%s' attachments.", "ela-attach")
		}
		if e.Attachment.DeviceIndex == 0 {
			return errf("OperationNotPermitted", "The network interface at device index 0 and networkCard index 0 cannot be detached.")
		}
		i, err := get(tx, instances, sc, instanceID, e.Attachment.InstanceID)
		if err != nil {
			return err
		}
		i.Interfaces = slices.DeleteFunc(slices.Clone(i.Interfaces), func(x string) bool { return x == e.ID })
		if err := e.detach(tx, sc); err != nil {
			return err
		}
		if err := networkInterfaces.Put(tx, sc.key(e.ID), e); err != nil {
			return err
		}
		return instances.Put(tx, sc.key(i.ID), i)
	})
	return &awsec2.DetachNetworkInterfaceOutput{}, err
}
