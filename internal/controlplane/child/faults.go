package child

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// errNoSpace is etcd's error, as API servers pass it on.
// https://github.com/etcd-io/etcd/blob/v3.6.4/api/v3rpc/rpctypes/error.go (ErrGRPCNoSpace)
const errNoSpace = "etcdserver: mvcc: database space exceeded"

// failing applies the faults in force to requests. Health checks are left alone: a slow or full API server is healthy.
func failing(next http.Handler, faults *atomic.Pointer[launch.Faults]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := faults.Load()
		if *f == (launch.Faults{}) || slices.Contains([]string{"livez", "readyz", "healthz"}, strings.Split(r.URL.Path, "/")[1]) {
			next.ServeHTTP(w, r)
			return
		}
		if f.Delay > 0 && pause(r.Context(), f.Delay) != nil {
			return
		}
		if f.NoSpace && writes(r) {
			responsewriters.ErrorNegotiated(&apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Message: errNoSpace, Code: http.StatusInternalServerError,
			}}, scheme.Codecs, corev1.SchemeGroupVersion, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writes reports whether a request stores something in etcd. Deletions free space, so etcd allows them; but a pod is first
// marked as terminating, which is a write.
func writes(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || len(r.URL.Query()["dryRun"]) > 0 {
		return false
	}
	switch info.Verb {
	case "update", "patch":
		return true
	case "delete", "deletecollection":
		return info.Resource == "pods"
	case "create":
		return info.APIGroup != "authentication.k8s.io" && info.APIGroup != "authorization.k8s.io" &&
			!slices.Contains([]string{"exec", "attach", "portforward", "proxy", "token"}, info.Subresource)
	}
	return false
}
