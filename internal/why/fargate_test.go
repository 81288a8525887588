package why

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where a pod's logs are not is said of pods of Fargate only.
func TestWherePodsOfFargateLog(t *testing.T) {
	for _, tt := range []struct{ scheduler, says, want string }{
		{"fargate-scheduler", "LoggingEnabled", "LoggingEnabled, and nothing is sent: containers of simulated machines write no logs"},
		{"fargate-scheduler", "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND", "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND: the router"},
		{"fargate-scheduler", "", ""},
		{"default-scheduler", "LoggingEnabled", ""},
	} {
		c := &podChain{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"Logging": tt.says}}, Spec: corev1.PodSpec{SchedulerName: tt.scheduler}}}
		c.logging()
		if got := strings.Join(c.Notes, ""); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s, %q: %q", tt.scheduler, tt.says, got)
		}
	}
}
