package ec2

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// chunk bounds a transaction: no more than 100 writes, and a request to etcd far
// below its limit even when every instance carries 16 KiB of user data.
const (
	chunkWrites    = 90
	chunkInstances = 40
)

// instanceWrites is how much launching one instance may write.
const instanceWrites = chunkWrites - 8

// writes is how much launching one instance writes.
func (l launch) writes() int {
	each := 1 + len(l.nics) + len(l.devices)
	if l.spot != nil {
		each++
	}
	for _, nic := range l.nics { // each IPv6 address is a record
		each += len(nic.spec.ipv6) + nic.spec.extra6
		if nic.spec.subnet.AssignIPv6 {
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

// launch writes the instances and returns their IDs.
func (s *Service) launch(ctx context.Context, sc scope, request *awsec2.RunInstancesInput, l launch) ([]string, error) {
	s.launches.RLock()
	defer s.launches.RUnlock()
	if n := l.writes(); n > instanceWrites {
		return nil, errNotHonoured(fmt.Sprintf("an instance launched with %d network interfaces, volumes and IPv6 addresses, above %d", n, instanceWrites))
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
		err := s.update(ctx, request.DryRun, func(tx *store.Tx) error {
			resumed = nil
			if written == 0 {
				done, err := s.recall(tx, sc, "RunInstances", token, request)
				if err != nil {
					return err
				}
				if done != nil {
					resumed = done.IDs // another call, or one before a crash
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
			return s.remember(tx, sc, "RunInstances", token, request, !last, planned...)
		})
		if err != nil {
			if written >= l.min && isCode(err, "InsufficientFreeAddressesInSubnet") {
				unfinishedLaunch := sc.key(planned[0])
				planned = planned[:written]
				return planned, s.store.Update(ctx, func(tx *store.Tx) error {
					unfinishedLaunches.Delete(tx, unfinishedLaunch)
					return s.remember(tx, sc, "RunInstances", token, request, false, planned...)
				})
			}
			// All of them: a commit that was cancelled may have taken effect.
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

// affordable is how many instances the free addresses allow, MaxCount at most.
func (s *Service) affordable(sc scope, l launch) (int, error) {
	perSubnet := map[string]int{}
	pools := map[string]addressPool{}
	for _, nic := range l.nics {
		if nic.existing != "" {
			continue
		}
		sn := nic.spec.subnet
		pool, err := sc.subnetPool(sn)
		if err != nil {
			return 0, err
		}
		pools[sn.ID] = pool
		perSubnet[sn.ID] += 1 + len(nic.spec.secondary) + nic.spec.extra + 16*(len(nic.spec.prefixes)+nic.spec.extraPrefix)
	}
	count := l.max
	for id, each := range perSubnet {
		free, err := pools[id].free(s.store)
		if err != nil {
			return 0, err
		}
		if free/each < l.min {
			return 0, errNoFreeAddresses(id)
		}
		count = min(count, free/each)
	}
	return count, nil
}

// resume completes a launch that an earlier call with the same token began and a
// crash interrupted.
func (s *Service) resume(ctx context.Context, sc scope, request *awsec2.RunInstancesInput, l launch, planned []string) ([]string, error) {
	reservation := ids.Resource("r")
	if first, err := instances.Get(s.store, sc.key(planned[0])); err == nil {
		reservation = first.ReservationID
	}
	size := l.chunkSize()
	for start := 0; start < len(planned); start += size {
		end := min(start+size, len(planned))
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			done, err := s.recall(tx, sc, "RunInstances", request.ClientToken, request)
			if err != nil || done == nil || !done.Incomplete {
				return err
			}
			for k := start; k < end; k++ {
				if _, err := instances.Get(tx, sc.key(planned[k])); err == nil {
					continue
				}
				if err := s.launchOne(tx, sc, l, planned[k], reservation, k); err != nil {
					return err
				}
			}
			if end == len(planned) {
				unfinishedLaunches.Delete(tx, sc.key(planned[0]))
			}
			return s.remember(tx, sc, "RunInstances", request.ClientToken, request, end < len(planned), planned...)
		})
		if err != nil {
			return nil, err
		}
	}
	return planned, nil
}

// launchOne writes an instance with its interfaces.
func (s *Service) launchOne(tx *store.Tx, sc scope, l launch, id, reservation string, index int) error {
	in, now := l.in, s.now()
	i := instanceRecord{
		ID: id, ReservationID: reservation, Requester: l.requester, LaunchIndex: int32(index), ImageID: l.image.ID, Type: l.typ.Name,
		Architecture: l.image.Architecture, RootDevice: l.image.RootDevice, KeyName: aws.ToString(in.KeyName),
		ClientToken: aws.ToString(in.ClientToken), LaunchTime: now.Truncate(1e9),
		State: statePending, Since: now, ReasonCode: "pending", ReasonMessage: "pending",
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
	i.applyOptions(&l, preferred)
	if l.profile != nil {
		p := *l.profile
		p.AssociationID = ids.Resource("iip-assoc")
		i.Profile = &p
	}
	if err := launchVolumes(tx, sc, &i, l.devices, l.volTags, func() string { return ids.Resource("vol") }); err != nil {
		return err
	}
	if l.spot != nil {
		if err := s.fulfilSpot(tx, sc, &l, &i); err != nil {
			return err
		}
	}
	for n, nic := range l.nics {
		e, err := s.launchInterface(tx, sc, nic, reservation)
		if err != nil {
			return err
		}
		e.Attachment = interfaceAttachment{
			ID: ids.Resource("eni-attach"), InstanceID: id, DeviceIndex: nic.device, CardIndex: nic.card,
			DeleteOnTermination: nic.deleteOnTermination, Time: i.LaunchTime,
		}
		if n == 0 {
			i.PrivateIP = e.Addresses[0]
			i.AutoPublic = nic.public == nil && nic.existing == "" && nic.spec.subnet.MapPublicIP || aws.ToBool(nic.public)
			if i.AutoPublic {
				public, err := publicPool(sc.region).take(tx, 1, reservation)
				if err != nil {
					return fmt.Errorf("public addresses: %w", err)
				}
				e.PublicIP = public[0].String()
			}
			i.PublicIP = e.PublicIP // also an elastic one of an interface that was there
		}
		if err := e.noteInstance(tx, sc); err != nil {
			return err
		}
		if err := networkInterfaces.Put(tx, sc.key(e.ID), e); err != nil {
			return err
		}
		i.Interfaces = append(i.Interfaces, e.ID)
	}
	return instances.Create(tx, sc.key(id), i)
}

func (s *Service) launchInterface(tx *store.Tx, sc scope, nic launchInterface, hint string) (networkInterfaceRecord, error) {
	if nic.existing == "" {
		// Read again: it must not be deleted meanwhile.
		sn, err := get(tx, subnets, sc, subnetID, nic.spec.subnet.ID)
		if err != nil {
			return networkInterfaceRecord{}, err
		}
		spec := nic.spec
		spec.id, spec.subnet, spec.hint = ids.Resource("eni"), sn, hint
		return s.makeInterface(tx, sc, spec)
	}
	e, err := get(tx, networkInterfaces, sc, networkInterfaceID, nic.existing)
	if err == nil && e.Attachment.ID != "" {
		err = errInterfaceInUse("Interface: [%s] in use.", e.ID)
	}
	return e, err
}
