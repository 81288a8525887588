package compute

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// metadataAddress is the address of the instance metadata service.
var metadataAddress = &net.TCPAddr{IP: net.IPv4(169, 254, 169, 254), Port: 80}

// faultyMetadata connects an instance to its metadata service, which may not answer because of a fault.
type faultyMetadata struct {
	m          *Machines
	instanceID string
	next       http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *faultyMetadata) RoundTrip(r *http.Request) (*http.Response, error) {
	f := t.m.faultOf(fault.IMDS, t.instanceID)
	if f == nil {
		return t.next.RoundTrip(r)
	}
	if !clock.Sleep(r.Context(), t.m.network.clock, t.m.network.patience) {
		return nil, r.Context().Err()
	}
	return nil, &node.Refusal{
		Err:      &net.OpError{Op: "dial", Net: "tcp", Addr: metadataAddress, Err: os.ErrDeadlineExceeded},
		Decision: node.FaultDecision(f, "the instance metadata service does not answer"),
	}
}

// faultOf returns the fault of a kind that affects a running instance, or nil.
func (m *Machines) faultOf(k fault.Kind, instanceID string) *fault.Fault {
	in, err := m.Instance(instanceID)
	if err != nil {
		return nil
	}
	return m.cfg.Faults.Instance(k, in.Account, in.Region, instanceID)
}

// dnsServer is the address of AmazonProvidedDNS for instances.
// https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html
var dnsServer = netip.AddrPortFrom(netip.AddrFrom4([4]byte{169, 254, 169, 253}), 53)

// noAnswer returns a Go program's error if its DNS server does not answer. The source port is derived from the name,
// so that a retry fails with the same text.
func noAnswer(source netip.Addr, name string) *net.DNSError {
	port := uint16(32768)
	for _, c := range []byte(name) {
		port = 32768 + (port*31+uint16(c))%28232
	}
	text := "i/o timeout"
	if source.IsValid() {
		text = "read udp " + netip.AddrPortFrom(source, port).String() + "->" + dnsServer.String() + ": i/o timeout"
	}
	return &net.DNSError{Err: text, Name: name, Server: dnsServer.String(), IsTimeout: true}
}

// fault returns the error of a call by an instance's program if a fault makes it fail, worded as by the AWS SDK for
// Go after its last attempt.
//
// AWS deviation: latency faults do not delay these calls, which the simulated machines make without a connection;
// they do delay those of scripts and pods.
func (g *guestCalls) fault(in machine.Instance, call *awsapi.Call) error {
	e := g.faults.Call(fault.Call{
		Account: in.Account, Region: call.Region, Services: [2]string{call.Service}, Operation: call.Operation,
		Principals: [2]string{call.Principal.ARN, call.Principal.RoleARN},
	})
	if e.Failed == nil {
		return nil
	}
	svc, err := model.Get(call.Service)
	if err != nil {
		return err
	}
	says := server.FaultError(svc, e.Failed)
	return &node.Refusal{
		Err: fmt.Errorf("operation error %s: %s, exceeded maximum number of attempts, 3, https response error StatusCode: %d, api error %s: %s",
			strings.ToUpper(call.Service), call.Operation, cmp.Or(says.Status, http.StatusBadRequest), says.Code, says.Message),
		Decision: node.FaultDecision(e.Failed, call.Service+":"+call.Operation+" fails"),
	}
}
