package controlplane_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/fault"
)

// setFault puts a fault of the cluster in force, or ends all if kind is empty.
func setFault(set *fault.Set, kind fault.Kind, delay time.Duration) {
	var all []fault.Fault
	if kind != "" {
		all = append(all, fault.Fault{
			ID: "F-1", Kind: kind, Account: account.Account, Region: account.Region, Cluster: account.Name, Since: time.Now(), Delay: delay,
		})
	}
	set.Replace(all)
}

func TestAFaultTakesAPlaneDown(t *testing.T) {
	set := fault.NewSet(fault.Config{})
	w := newWorld(t, func(c *config) { c.Faults = set })
	p := w.claim("arn", account)
	other := account
	other.Name = "other"
	unharmed := w.claim("arn:other", other)
	setFault(set, fault.ControlPlane, 0)
	eventually(t, func() error {
		if _, err := viaEndpoint(t.Context(), p, "/pid"); err == nil {
			return errors.New("it answers")
		}
		if s, err := w.Status(p.ID); err != nil || s.State != controlplane.Failed || !strings.Contains(s.Reason, "fault F-1 (control-plane dev)") {
			return fmt.Errorf("status %+v, %v", s, err)
		}
		return nil
	})
	if err := w.WaitReady(t.Context(), p.ID); fault.Of(err) == nil {
		t.Errorf("waiting for the plane: %v", err)
	}
	w.pid(unharmed.ID)
	w.reopen() // the fault is still in force
	if s, err := w.Status(p.ID); err != nil || s.State == controlplane.Ready {
		t.Errorf("status %+v, %v", s, err)
	}
	setFault(set, "", 0)
	eventually(t, func() error { return w.WaitReady(t.Context(), p.ID) })
	w.pid(p.ID)
}

func TestAFaultLetsTheAuthorityExpire(t *testing.T) {
	set := fault.NewSet(fault.Config{})
	w := newWorld(t, func(c *config) { c.Faults = set })
	p := w.claim("arn", account)
	setFault(set, fault.ExpiredCA, 0)
	eventually(t, func() error {
		_, err := viaEndpoint(t.Context(), p, "/pid")
		if err == nil || !strings.Contains(err.Error(), "x509: certificate has expired or is not yet valid: current time") {
			return fmt.Errorf("the endpoint's answer: %v", err)
		}
		return nil
	})
	setFault(set, "", 0)
	eventually(t, func() error { _, err := viaEndpoint(t.Context(), p, "/pid"); return err })
	w.ready(p.ID)
}

func TestAFaultStopsUpgrades(t *testing.T) {
	set := fault.NewSet(fault.Config{})
	w := newWorld(t, func(c *config) { c.Faults = set })
	p := w.claim("arn", account)
	old := w.pid(p.ID)
	setFault(set, fault.Upgrade, 0)
	if err := w.Upgrade(t.Context(), p.ID, "1.35"); fault.Of(err) == nil {
		t.Errorf("Upgrade = %v", err)
	}
	if w.pid(p.ID) != old || w.version(p.ID) != "1.34" {
		t.Error("the process has changed")
	}
	setFault(set, "", 0)
	if err := w.Replace(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if w.pid(p.ID) == old || w.version(p.ID) != "1.34" {
		t.Error("the process was not replaced by one of the same version")
	}
}

// TestFaultsOfRequests runs Kubernetes.
func TestFaultsOfRequests(t *testing.T) {
	set := fault.NewSet(fault.Config{})
	w := newKubernetes(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.cfg.Faults = set
	w.open()
	p := w.claim("arn", account)
	maps := w.clientset(w.RESTConfig(p.ID)).CoreV1().ConfigMaps("default")
	create := func(name string) error {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	if err := create("before"); err != nil {
		t.Fatal(err)
	}
	setFault(set, fault.EtcdFull, 0)
	eventually(t, func() error {
		err := create(fmt.Sprint("full-", time.Now().UnixNano()))
		if err == nil || err.Error() != "etcdserver: mvcc: database space exceeded" {
			return fmt.Errorf("creating: %v", err)
		}
		return nil
	})
	if _, err := maps.Get(t.Context(), "before", metav1.GetOptions{}); err != nil {
		t.Errorf("reading: %v", err)
	}
	if err := maps.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting: %v", err)
	}
	const delay = 700 * time.Millisecond
	setFault(set, fault.SlowAPIServer, delay)
	eventually(t, func() error {
		began := time.Now()
		if err := create(fmt.Sprint("slow-", began.UnixNano())); err != nil {
			return err
		}
		if took := time.Since(began); took < delay {
			return fmt.Errorf("creating took %s", took)
		}
		return nil
	})
	setFault(set, fault.ExpiredCA, 0) // the real processes, too, start with certificates that have expired
	eventually(t, func() error {
		if err := create("expired"); err == nil || !strings.Contains(err.Error(), "certificate has expired") {
			return fmt.Errorf("creating: %v", err)
		}
		return nil
	})
	setFault(set, "", 0)
	eventually(t, func() error { return create("after") })
}
