package instance

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/store"
)

// These limits keep a transaction below 100 writes, and its request to etcd well below etcd's limit
// even if every instance has 16 KiB of user data.
const (
	chunkWrites    = 90
	chunkInstances = 40
)

// instanceWrites is the maximum number of writes for launching one instance.
const instanceWrites = chunkWrites - 8

// writes is the number of writes for launching one instance.
func (l launch) writes() int {
	each := 1 + len(l.nics) + len(l.devices)
	if l.spot != nil {
		each++
	}
	for _, nic := range l.nics { // each IPv6 address has its own record
		each += len(nic.spec.IPv6) + nic.spec.Extra6
		if nic.spec.Subnet.AssignIPv6 {
			each++
		}
	}
	return each
}

func (l launch) chunkSize() int {
	n := min(chunkInstances, instanceWrites/l.writes())
	if size := len(aws.ToString(l.in.UserData)); size > 0 {
		n = min(n, max(1, 700_000/(size+4096)))
	}
	return max(n, 1)
}

// launch stores the instances and returns their IDs.
func (s *Service) launch(ctx context.Context, sc resource.Scope, request *awsec2.RunInstancesInput, l launch) ([]string, error) {
	s.launches.RLock()
	defer s.launches.RUnlock()
	if n := l.writes(); n > instanceWrites {
		return nil, ec2err.NotHonoured(fmt.Sprintf("an instance launched with %d network interfaces, volumes and IPv6 addresses, above %d", n, instanceWrites))
	}
	count, err := s.affordable(sc, l)
	if err != nil {
		return nil, err
	}
	hold, err := s.vcpus.hold(ctx, s, sc, &l, count)
	if err != nil {
		return nil, err
	}
	defer hold.release(0)
	count = hold.count
	token, reservation := request.ClientToken, ids.Resource("r")
	s.launching.Store(reservation, nil)
	defer s.launching.Delete(reservation)
	planned := make([]string, count)
	for i := range planned {
		planned[i] = ids.Resource("i")
	}
	size := l.chunkSize()
	var written int
	for written < count {
		n := min(size, count-written)
		last := written+n == count
		var resumed []string
		err := s.Update(ctx, request.DryRun, func(tx *store.Tx) error {
			resumed = nil
			if written == 0 {
				done, err := s.Recall(tx, sc, "RunInstances", token, request)
				if err != nil {
					return err
				}
				if done != nil {
					resumed = done.IDs // by another call or by one before a crash
					return nil
				}
			}
			for k := written; k < written+n; k++ {
				if err := s.launchOne(tx, sc, l, planned[k], reservation, k); err != nil {
					return err
				}
			}
			if err := noteUnfinished(tx, sc, l, planned, written == 0, last, token); err != nil {
				return err
			}
			if written > 0 && !last {
				return nil
			}
			return s.Remember(tx, sc, "RunInstances", token, request, !last, planned...)
		})
		if err != nil {
			if written >= l.min && ec2err.HasCode(err, "InsufficientFreeAddressesInSubnet") {
				unfinishedLaunch := sc.Key(planned[0])
				planned = planned[:written]
				return planned, s.Store.Update(ctx, func(tx *store.Tx) error {
					unfinishedLaunches.Delete(tx, unfinishedLaunch)
					return s.Remember(tx, sc, "RunInstances", token, request, false, planned...)
				})
			}
			// Include instances whose commit failed: a canceled commit may have taken effect.
			return nil, errors.Join(err, s.takeBack(context.WithoutCancel(ctx), sc, aws.ToString(token), planned))
		}
		if resumed != nil {
			return s.resume(ctx, sc, request, l, resumed)
		}
		written += n
		hold.release(count - written)
	}
	return planned, nil
}

// affordable returns how many instances the free addresses allow, at most MaxCount.
func (s *Service) affordable(sc resource.Scope, l launch) (int, error) {
	perSubnet := map[string]int{}
	pools := map[string]ipam.Pool{}
	for _, nic := range l.nics {
		if nic.existing != "" {
			continue
		}
		sn := nic.spec.Subnet
		if sn.IPv6Only() {
			continue
		}
		pool, err := ipam.OfSubnet(sc, sn)
		if err != nil {
			return 0, err
		}
		pools[sn.ID] = pool
		perSubnet[sn.ID] += 1 + len(nic.spec.Secondary) + nic.spec.Extra + 16*(len(nic.spec.Prefixes)+nic.spec.ExtraPrefix)
	}
	count := l.max
	for id, each := range perSubnet {
		free, err := pools[id].Free(s.Store)
		if err != nil {
			return 0, err
		}
		if free/each < l.min {
			return 0, ec2err.NoFreeAddresses(id)
		}
		count = min(count, free/each)
	}
	return count, nil
}

// resume completes a launch that an earlier call with the same token began and that was interrupted
// by a crash.
func (s *Service) resume(ctx context.Context, sc resource.Scope, request *awsec2.RunInstancesInput, l launch, planned []string) ([]string, error) {
	reservation := ids.Resource("r")
	if first, err := record.Instances.Get(s.Store, sc.Key(planned[0])); err == nil {
		reservation = first.ReservationID
	}
	size := l.chunkSize()
	for start := 0; start < len(planned); start += size {
		end := min(start+size, len(planned))
		err := s.Store.Update(ctx, func(tx *store.Tx) error {
			done, err := s.Recall(tx, sc, "RunInstances", request.ClientToken, request)
			if err != nil || done == nil || !done.Incomplete {
				return err
			}
			for k := start; k < end; k++ {
				if _, err := record.Instances.Get(tx, sc.Key(planned[k])); err == nil {
					continue
				}
				if err := s.launchOne(tx, sc, l, planned[k], reservation, k); err != nil {
					return err
				}
			}
			if end == len(planned) {
				unfinishedLaunches.Delete(tx, sc.Key(planned[0]))
			}
			return s.Remember(tx, sc, "RunInstances", request.ClientToken, request, end < len(planned), planned...)
		})
		if err != nil {
			return nil, err
		}
	}
	return planned, nil
}

// launchOne stores an instance and its interfaces.
func (s *Service) launchOne(tx *store.Tx, sc resource.Scope, l launch, id, reservation string, index int) error {
	in, now := l.in, s.Now()
	i := record.Instance{
		ID: id, ReservationID: reservation, Requester: l.requester, Operator: l.operator, LaunchIndex: int32(index), ImageID: l.image.ID, BaseImage: l.image.BaseName(), Type: l.typ.Name,
		Architecture: l.image.Architecture, RootDevice: l.image.RootDevice, KeyName: aws.ToString(in.KeyName),
		ClientToken: aws.ToString(in.ClientToken), LaunchTime: now.Truncate(1e9),
		State: record.Pending, Since: now, ReasonCode: "pending", ReasonMessage: "pending",
		VPCID: l.subnet.VPCID, SubnetID: l.subnet.ID, Zone: l.subnet.Zone, ZoneID: l.subnet.ZoneID,
		UserData: aws.ToString(in.UserData), EbsOptimized: aws.ToBool(in.EbsOptimized), DisableTermination: aws.ToBool(in.DisableApiTermination),
		DisableStop: aws.ToBool(in.DisableApiStop), ShutdownBehavior: string(in.InstanceInitiatedShutdownBehavior),
		HostnameType: l.subnet.HostnameType, ResourceNameA: l.subnet.ResourceNameA, ResourceNameAAAA: l.subnet.ResourceNameAAAA,
		FleetID: l.fleet, FleetWeight: l.weight, Tags: l.tags,
	}
	preferred, err := getMetadataDefaults(tx, sc)
	if err != nil {
		return err
	}
	applyOptions(&i, &l, preferred)
	if l.profile != nil {
		p := *l.profile
		p.AssociationID = ids.Resource("iip-assoc")
		i.Profile = &p
	}
	if err := storage.LaunchVolumes(tx, sc, &i, l.devices, l.volTags, func() string { return ids.Resource("vol") }); err != nil {
		return err
	}
	if l.spot != nil {
		if err := s.fulfilSpot(tx, sc, &l, &i); err != nil {
			return err
		}
	} else if err := s.capacity.Take(tx, sc, l.reserved, &i); err != nil {
		return err
	}
	if l.group != nil {
		if err := l.group.Place(tx, sc, &i, l.in.Placement.PartitionNumber); err != nil {
			return err
		}
	}
	for n, nic := range l.nics {
		e, err := s.launchInterface(tx, sc, nic, reservation)
		if err != nil {
			return err
		}
		e.Attachment = record.InterfaceAttachment{
			ID: ids.Resource("eni-attach"), InstanceID: id, DeviceIndex: nic.device, CardIndex: nic.card,
			DeleteOnTermination: nic.deleteOnTermination, Time: i.LaunchTime,
		}
		if n == 0 {
			i.PrivateIP = e.PrivateIP()
			i.AutoPublic = nic.public == nil && nic.existing == "" && nic.spec.Subnet.MapPublicIP || aws.ToBool(nic.public)
			if i.AutoPublic && i.PrivateIP != "" {
				public, err := ipam.Public(sc.Region).Take(tx, 1, reservation)
				if err != nil {
					return fmt.Errorf("public addresses: %w", err)
				}
				e.PublicIP = public[0].String()
			}
			i.PublicIP = e.PublicIP // may be the elastic address of an existing interface
		}
		if err := e.NoteInstance(tx, sc); err != nil {
			return err
		}
		if err := record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e); err != nil {
			return err
		}
		i.Interfaces = append(i.Interfaces, e.ID)
	}
	return record.Instances.Create(tx, sc.Key(id), i)
}

func (s *Service) launchInterface(tx *store.Tx, sc resource.Scope, nic launchInterface, hint string) (record.NetworkInterface, error) {
	if nic.existing == "" {
		// Read it again, because it may have been deleted in the meantime.
		sn, err := resource.Get(tx, record.Subnets, sc, nic.spec.Subnet.ID)
		if err != nil {
			return record.NetworkInterface{}, err
		}
		spec := nic.spec
		spec.ID, spec.Subnet, spec.Hint = ids.Resource("eni"), sn, hint
		return s.interfaces.Make(tx, sc, spec)
	}
	e, err := resource.Get(tx, record.NetworkInterfaces, sc, nic.existing)
	if err == nil && e.Attachment.ID != "" {
		err = ec2err.InterfaceInUse("Interface: [%s] in use.", e.ID)
	}
	return e, err
}
