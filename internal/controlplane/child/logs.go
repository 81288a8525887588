package child

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	auditpolicy "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/controlplane/logqueue"
)

// logs sends the log lines of the enabled components to the daemon. While no component is enabled, its only cost is one
// request that waits for a change.
type logs struct {
	daemon  *daemonClient
	queue   *logqueue.Queue
	enabled atomic.Pointer[[]string]
	faults  atomic.Pointer[launch.Faults]
	usage   *usage
	// autoMode is the setting of EKS Auto Mode.
	autoMode autoModeSetting
	// loggers are the loggers of components, by name. configs are the settings of all loggers.
	loggers map[string]klog.Logger
	configs []*textlogger.Config
}

// captureLogs makes klog, in the whole process, write to the logs that it returns. If code logs without the context of
// a component, its component is found from the call stack.
func captureLogs(daemon *daemonClient) *logs {
	l := &logs{daemon: daemon, queue: logqueue.New(), usage: newUsage(daemon), loggers: map[string]klog.Logger{}}
	l.enabled.Store(new([]string))
	l.faults.Store(new(launch.Faults))
	for _, c := range []string{launch.ControllerManager, launch.CloudControllerManager, launch.Scheduler} {
		l.loggers[c] = l.logger(func() string { return c })
	}
	klog.SetLoggerWithOptions(l.logger(func() string { return componentOf(callers()) }), klog.ContextualLogger(true))
	return l
}

func (l *logs) logger(component func() string) klog.Logger {
	config := textlogger.NewConfig(textlogger.Output(lineWriter{l, component}))
	l.configs = append(l.configs, config)
	return textlogger.NewLogger(config)
}

// as returns a context whose logger writes as a component.
func (l *logs) as(ctx context.Context, component string) context.Context {
	return klog.NewContext(ctx, l.loggers[component])
}

func (l *logs) on(component string) bool { return slices.Contains(*l.enabled.Load(), component) }

func (l *logs) add(component, text string) {
	l.queue.Add(launch.LogLine{Component: component, Time: time.Now().UnixMilli(), Text: text})
}

// run sends lines, and keeps track of which logs are enabled, until ctx ends.
func (l *logs) run(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { l.follow(ctx) })
	following.Go(func() { l.usage.run(ctx) })
	l.queue.Run(ctx, func(ctx context.Context, lines []launch.LogLine) error {
		answer := launch.Logs{Lines: lines}
		if err := l.daemon.call(ctx, launch.LogsPath, time.Minute, &answer); err != nil {
			return err
		}
		if answer.Problem != "" {
			return errors.New(answer.Problem)
		}
		return nil
	}, func(err error) { klog.ErrorS(err, "Writing control plane logs") })
}

func (l *logs) follow(ctx context.Context) {
	for ctx.Err() == nil {
		autoMode, _ := l.autoMode.get()
		have, wanted := launch.Logging{Components: *l.enabled.Load(), Faults: *l.faults.Load(), AutoMode: autoMode}, launch.Logging{}
		if err := l.daemon.ask(ctx, launch.LoggingPath, time.Minute, have, &wanted); err != nil {
			_ = pause(ctx, cloudRetry)
			continue
		}
		l.faults.Store(&wanted.Faults)
		l.autoMode.set(wanted.AutoMode)
		if !slices.Equal(wanted.Components, *l.enabled.Load()) {
			l.enabled.Store(&wanted.Components)
			l.adjust()
		}
	}
}

// eksVerbosity is the verbosity of EKS's components. Lines such as "Successfully bound pod to node" require it.
const eksVerbosity = "2"

// adjust makes the components as verbose as EKS's while any of their logs is enabled.
func (l *logs) adjust() {
	level := "0"
	for _, c := range *l.enabled.Load() {
		if c != launch.Audit && c != launch.Authenticator {
			level = eksVerbosity
		}
	}
	var global klog.Level
	_ = global.Set(level) // cannot fail: level is a number
	for _, c := range l.configs {
		_ = c.Verbosity().Set(level)
	}
}

// A lineWriter writes lines to this process's own log and, if they are enabled, to the components' logs.
type lineWriter struct {
	logs      *logs
	component func() string
}

var _ io.Writer = lineWriter{}

func (w lineWriter) Write(line []byte) (int, error) {
	if len(*w.logs.enabled.Load()) > 0 {
		if c := w.component(); w.logs.on(c) {
			w.logs.add(c, strings.TrimSuffix(string(line), "\n"))
		}
	}
	return os.Stderr.Write(line)
}

// callers returns the names of the functions that called this one, innermost first.
func callers() []string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var names []string
	for {
		f, more := frames.Next()
		names = append(names, f.Function)
		if !more {
			return names
		}
	}
}

// componentOf returns the component of the innermost function that belongs to one, or the API server if none does.
// functions starts with the innermost function.
func componentOf(functions []string) string {
	for _, f := range functions {
		switch {
		case strings.HasPrefix(f, "k8s.io/kubernetes/pkg/scheduler"), strings.HasPrefix(f, "k8s.io/kubernetes/cmd/kube-scheduler/"):
			return launch.Scheduler
		case strings.HasPrefix(f, "k8s.io/kubernetes/pkg/controller/"), strings.HasPrefix(f, "k8s.io/kubernetes/pkg/controller."),
			strings.HasPrefix(f, "k8s.io/kubernetes/cmd/kube-controller-manager/"):
			return launch.ControllerManager
		case strings.HasPrefix(f, "k8s.io/cloud-provider"):
			return launch.CloudControllerManager
		case strings.HasPrefix(f, "sigs.k8s.io/karpenter/"), strings.HasPrefix(f, "sigs.k8s.io/controller-runtime/"):
			return "" // the controllers of EKS Auto Mode, whose logs users do not get
		}
	}
	return launch.APIServer
}

// audit adds the audit log to an API server's configurations.
func (l *logs) audit(configs ...*genericapiserver.Config) error {
	policy, err := auditpolicy.LoadPolicyFromBytes([]byte(auditRules))
	if err != nil {
		return err
	}
	rules := auditEvaluator{auditpolicy.NewPolicyRuleEvaluator(policy), l}
	log := truncate.NewBackend(auditBackend{l}, truncate.Config{MaxEventSize: maxAuditEvent, MaxBatchSize: 10 * maxAuditEvent}, auditv1.SchemeGroupVersion)
	backend := countingBackend{log, l}
	for _, c := range configs {
		c.AuditPolicyRuleEvaluator, c.AuditBackend = rules, backend
	}
	return nil
}

// maxAuditEvent is the size above which an event is truncated. CloudWatch Logs accepts events of at most 256 KiB.
const maxAuditEvent = 256<<10 - 1024

// An auditEvaluator decides what is audited. While the audit log is disabled, events only serve to count the use of
// deprecated APIs, for which the metadata of completed requests is enough.
type auditEvaluator struct {
	audit.PolicyRuleEvaluator
	logs *logs
}

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (e auditEvaluator) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	if e.logs.on(launch.Audit) {
		return e.PolicyRuleEvaluator.EvaluatePolicyRule(a)
	}
	if !a.IsResourceRequest() || e.logs.usage.isCurrent(resource{a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource()}) {
		return audit.RequestAuditConfig{Level: auditinternal.LevelNone}
	}
	config := e.PolicyRuleEvaluator.EvaluatePolicyRule(a)
	if config.Level != auditinternal.LevelNone {
		return countedOnly
	}
	return config
}

var countedOnly = audit.RequestAuditConfig{
	Level:      auditinternal.LevelMetadata,
	OmitStages: []auditinternal.Stage{auditinternal.StageRequestReceived, auditinternal.StageResponseStarted, auditinternal.StagePanic},
}

// A countingBackend counts the use of deprecated APIs and passes events on while the audit log is enabled.
type countingBackend struct {
	audit.Backend
	logs *logs
}

// ProcessEvents implements audit.Sink.
func (b countingBackend) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		b.logs.usage.observe(e)
	}
	return !b.logs.on(launch.Audit) || b.Backend.ProcessEvents(events...)
}

// An auditBackend writes audit events as JSON.
type auditBackend struct{ logs *logs }

// ProcessEvents implements audit.Sink.
func (b auditBackend) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		text, err := kruntime.Encode(audit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), e)
		if err != nil {
			klog.ErrorS(err, "Encoding an audit event", "auditID", e.AuditID)
			return false
		}
		b.logs.add(launch.Audit, strings.TrimSuffix(string(text), "\n"))
	}
	return true
}

// Run, Shutdown and String implement audit.Backend.
func (b auditBackend) Run(<-chan struct{}) error { return nil }
func (b auditBackend) Shutdown()                 {}
func (b auditBackend) String() string            { return "CloudWatch Logs" }
