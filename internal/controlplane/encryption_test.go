package controlplane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/controlplane"
)

const (
	kmsKey  = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	kmsMark = "sealed by KMS:"
)

// fakeKMS seals by turning bytes around, unless its key is disabled.
type fakeKMS struct {
	mu       sync.Mutex
	disabled error
	calls    []string
}

func (k *fakeKMS) disable(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.disabled = err
}

func (k *fakeKMS) call(what, planeID, keyARN string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, fmt.Sprintf("%s %s %s", what, planeID, keyARN))
	return k.disabled
}

func (k *fakeKMS) Encrypt(_ context.Context, planeID, keyARN string, plaintext []byte) ([]byte, error) {
	if err := k.call("Encrypt", planeID, keyARN); err != nil {
		return nil, err
	}
	out := slices.Clone(plaintext)
	slices.Reverse(out)
	return append([]byte(kmsMark), out...), nil
}

func (k *fakeKMS) Decrypt(_ context.Context, planeID, keyARN string, ciphertext []byte) ([]byte, error) {
	if err := k.call("Decrypt", planeID, keyARN); err != nil {
		return nil, err
	}
	sealed, ok := bytes.CutPrefix(ciphertext, []byte(kmsMark))
	if !ok {
		return nil, errors.New("InvalidCiphertextException")
	}
	out := slices.Clone(sealed)
	slices.Reverse(out)
	return out, nil
}

// stored returns the values in etcd of a plane by their keys.
func (w *world) stored(id string) map[string][]byte {
	w.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: w.store.EtcdAccess().Endpoints, Logger: zap.NewNop()})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	prefix := w.store.ClusterPrefix(id)
	resp, err := c.Get(w.t.Context(), prefix+"/", clientv3.WithPrefix())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, kv := range resp.Kvs {
		out[strings.TrimPrefix(string(kv.Key), prefix)] = kv.Value
	}
	return out
}

func encrypted(value []byte) bool { return bytes.HasPrefix(value, []byte("k8s:enc:kms:v2:")) }

func (w *world) encrypt(id string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := w.Encrypt(ctx, id, kmsKey); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) putSecret(id, name string) {
	w.t.Helper()
	_, err := w.clientset(w.RESTConfig(id)).CoreV1().Secrets("default").Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": "correct horse " + name},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) secret(id, name string) error {
	s, err := w.clientset(w.RESTConfig(id)).CoreV1().Secrets("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got, want := string(s.Data["password"]), "correct horse "+name; got != want {
		return fmt.Errorf("secret %s is %q, want %q", name, got, want)
	}
	return nil
}

func TestEncryption(t *testing.T) {
	w, kms := newKubernetes(t), &fakeKMS{}
	w.cfg.KMS = kms
	w.reopen()
	p := w.claim("arn", account)

	w.putSecret(p.ID, "before")
	if v := w.stored(p.ID)["/secrets/default/before"]; !bytes.Contains(v, []byte("correct horse")) {
		t.Fatalf("without a key a secret is stored as %q", v)
	}
	pid := w.status(p.ID).PID
	w.encrypt(p.ID)
	w.putSecret(p.ID, "after")
	stored := w.stored(p.ID)
	for _, key := range []string{"/secrets/default/before", "/secrets/default/after"} {
		if v := stored[key]; !encrypted(v) || bytes.Contains(v, []byte("correct horse")) || !bytes.Contains(v, []byte(kmsMark)) {
			t.Errorf("%s is stored as %q", key, v)
		}
	}
	w.wantEncrypted(p.ID)
	if now := w.status(p.ID).PID; now != pid {
		t.Errorf("the process was started again: %d, then %d", pid, now)
	}
	for _, c := range kms.calls {
		if !strings.HasSuffix(c, p.ID+" "+kmsKey) {
			t.Errorf("a call of KMS: %s", c)
		}
	}
	if err := w.Encrypt(t.Context(), p.ID, kmsKey+"0"); err == nil {
		t.Error("the key could be changed")
	}

	t.Run("goes on after the process was killed", func(t *testing.T) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if s := w.status(p.ID); s.State != controlplane.Ready || s.PID == pid {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		})
		if err := errors.Join(w.secret(p.ID, "before"), w.secret(p.ID, "after")); err != nil {
			t.Error(err)
		}
	})

	t.Run("goes on with another Manager", func(t *testing.T) {
		w.reopen()
		w.ready(p.ID)
		w.putSecret(p.ID, "later")
		if v := w.stored(p.ID)["/secrets/default/later"]; !encrypted(v) {
			t.Errorf("stored as %q", v)
		}
		if err := w.secret(p.ID, "before"); err != nil {
			t.Error(err)
		}
	})

	t.Run("needs its key to start, and starts when it has it again", func(t *testing.T) {
		kms.disable(errors.New("DisabledException: " + kmsKey + " is disabled."))
		w.reopen()
		eventually(t, func() error {
			if s := w.status(p.ID); !strings.Contains(s.Reason, "is disabled") {
				return fmt.Errorf("not for a reason of KMS: %+v", s)
			}
			return nil
		})
		if s := w.status(p.ID); s.State != controlplane.Failed || s.PID != 0 {
			t.Errorf("status %+v", s)
		}
		kms.disable(nil)
		w.ready(p.ID)
		if err := w.secret(p.ID, "later"); err != nil {
			t.Error(err)
		}
	})

	t.Run("can be released without its key", func(t *testing.T) {
		kms.disable(errors.New("DisabledException: " + kmsKey + " is disabled."))
		w.reopen()
		if err := w.Release(t.Context(), p.ID); err != nil {
			t.Fatal(err)
		}
	})
}

func TestASpareIsEncryptedWhole(t *testing.T) {
	w := newKubernetes(t)
	w.cfg.KMS, w.cfg.WarmSpares, w.cfg.Clock = &fakeKMS{}, 1, testclock.NewFakeClock(time.Now())
	w.reopen()
	w.claim("arn:first", account)
	spare := w.awaitSpares(1)[0]
	p := w.claim("arn:second", account)
	if p.ID != spare {
		t.Fatalf("claimed %s, the spare was %s", p.ID, spare)
	}
	w.encrypt(p.ID)
	w.wantEncrypted(p.ID)
}

// wantEncrypted looks at everything that is stored. Events end by themselves; the
// allocator of node ports keeps a bitmap, which is no object.
func (w *world) wantEncrypted(id string) {
	w.t.Helper()
	n := 0
	for key, v := range w.stored(id) {
		switch {
		case encrypted(v):
			n++
		case !strings.HasPrefix(key, "/events/") && !strings.HasPrefix(key, "/ranges/"):
			w.t.Errorf("%s is not encrypted", key)
		}
	}
	if n < 50 { // the roles that every cluster is born with
		w.t.Errorf("only %d values are encrypted", n)
	}
}

func (w *world) status(id string) controlplane.Status {
	w.t.Helper()
	s, err := w.Status(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}
