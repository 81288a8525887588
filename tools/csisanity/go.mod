module github.com/drydock-dev/drydock/tools/csisanity

go 1.26.0

tool github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity

require (
	github.com/Masterminds/semver/v3 v3.4.0 // indirect
	github.com/container-storage-interface/spec v1.13.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-task/slim-sprig/v3 v3.0.0 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/pprof v0.0.0-20260402051712-545e8a4df936 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/kubernetes-csi/csi-test/v5 v5.6.0 // indirect
	github.com/onsi/ginkgo/v2 v2.32.1 // indirect
	github.com/onsi/gomega v1.42.1 // indirect
	go.uber.org/mock v0.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.4 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/grpc v1.83.1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	gopkg.in/yaml.v2 v2.4.0 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
)

replace github.com/go-logr/logr => github.com/go-logr/logr v1.4.4

replace golang.org/x/mod => golang.org/x/mod v0.41.0

replace golang.org/x/net => golang.org/x/net v0.62.0

replace golang.org/x/sync => golang.org/x/sync v0.24.0

replace golang.org/x/sys => golang.org/x/sys v0.49.0

replace golang.org/x/text => golang.org/x/text v0.43.0

replace golang.org/x/tools => golang.org/x/tools v0.51.0

replace google.golang.org/genproto/googleapis/rpc => google.golang.org/genproto/googleapis/rpc v0.0.0-20260803160001-6ac0973c030d

replace google.golang.org/grpc => google.golang.org/grpc v1.83.2

replace google.golang.org/protobuf => google.golang.org/protobuf v1.36.12-0.20260120151049-f2248ac996af

replace github.com/onsi/ginkgo/v2 => github.com/onsi/ginkgo/v2 v2.28.3

replace github.com/onsi/gomega => github.com/onsi/gomega v1.40.0
