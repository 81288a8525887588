package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// ensureEndpoints makes the control plane's network interfaces the endpoints of the service kubernetes, by which pods reach
// the API. Their addresses stay the same for as long as the cluster exists.
func (s *Service) ensureEndpoints(ctx context.Context, key store.Key, rec record.Cluster, planeID string) error {
	interfaces, err := s.interfaces(s.AsService(ctx, key.Account, key.Region), rec)
	if err != nil {
		return err
	}
	addresses, family := addressesOf(interfaces, rec.IPv6()), discoveryv1.AddressTypeIPv4
	if rec.IPv6() {
		family = discoveryv1.AddressTypeIPv6
	}
	if len(addresses) == 0 {
		return nil
	}
	ses, err := s.Sessions.Open(key, planeID)
	if err != nil {
		return err
	}
	name, port := metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}}, int32(443)
	//lint:ignore SA1019 API servers have it, too
	old := &corev1.Endpoints{ObjectMeta: name, Subsets: []corev1.EndpointSubset{{Ports: []corev1.EndpointPort{{Name: "https", Port: port, Protocol: corev1.ProtocolTCP}}}}}
	for _, a := range addresses {
		old.Subsets[0].Addresses = append(old.Subsets[0].Addresses, corev1.EndpointAddress{IP: a})
	}
	if _, err := ses.Client.CoreV1().Endpoints(metav1.NamespaceDefault).Create(ctx, old, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the endpoints of the service kubernetes: %w", err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}}, AddressType: family,
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: &port, Protocol: new(corev1.ProtocolTCP)}},
	}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	if _, err := ses.Client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the endpoint slice of the service kubernetes: %w", err)
	}
	return nil
}

// addressesOf returns the addresses of network interfaces in order.
func addressesOf(interfaces []ec2types.NetworkInterface, ipv6 bool) []string {
	var all []netip.Addr
	add := func(text *string) {
		if a, err := netip.ParseAddr(aws.ToString(text)); err == nil {
			all = append(all, a)
		}
	}
	for _, i := range interfaces {
		if !ipv6 {
			add(i.PrivateIpAddress)
			continue
		}
		for _, a := range i.Ipv6Addresses {
			add(a.Ipv6Address)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}
