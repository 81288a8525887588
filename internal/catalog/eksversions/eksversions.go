// Package eksversions is the catalogue of Kubernetes versions that Drydock's EKS
// offers, with their dates and platform versions. Any package may import it.
package eksversions

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Default is the version of clusters that do not name one.
const Default = "1.36"

// A Version is a Kubernetes minor version on EKS.
type Version struct {
	Minor string // 1.36
	// Patch is the Kubernetes release behind it.
	Patch string
	// PlatformVersion is the latest eks.N of the minor.
	PlatformVersion string
	Released        time.Time
	// EndOfStandardSupport and EndOfExtendedSupport are 14 and 26 months later.
	EndOfStandardSupport time.Time
	EndOfExtendedSupport time.Time
	// Introduces are the resources that Drydock's control planes of this version serve and those of the one before do not,
	// such as /apis/resource.k8s.io/v1/resourceclaims.
	Introduces []string
	// IntroducesFields are the fields of specs that API servers of this version keep and those of the one before drop,
	// such as "/api/v1/pods spec.hostnameOverride". Their features are in kube_features.go and, as +featureGate, in the
	// types of k8s.io/api. Fields of resources that are new are left out, and those of ResourceSlices, which drivers write.
	IntroducesFields []string
}

// All returns the versions, oldest first. The dates are those of
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html, except 1.36's, which follow the page's
// rule of 14 and 26 months.
func All() []Version {
	return []Version{
		{"1.33", "1.33.8", "eks.35", date(2025, 5, 29), date(2026, 7, 29), date(2027, 7, 29), nil, nil},
		{"1.34", "1.34.4", "eks.22", date(2025, 10, 2), date(2026, 12, 2), date(2027, 12, 2), []string{
			"/apis/resource.k8s.io/v1/deviceclasses", "/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1/resourceclaimtemplates",
			"/apis/resource.k8s.io/v1/resourceslices", "/apis/storage.k8s.io/v1/volumeattributesclasses",
		}, []string{
			"/api/v1/persistentvolumeclaims spec.volumeAttributesClassName", "/api/v1/persistentvolumes spec.volumeAttributesClassName",
			"/api/v1/pods spec.containers[].resources.claims", "/api/v1/pods spec.resourceClaims", "/api/v1/pods spec.resources",
		}},
		{"1.35", "1.35.2", "eks.12", date(2026, 1, 27), date(2027, 3, 27), date(2028, 3, 27), nil, []string{
			"/api/v1/pods spec.containers[].env[].valueFrom.fileKeyRef", "/api/v1/pods spec.containers[].restartPolicyRules", "/api/v1/pods spec.hostnameOverride",
			"/apis/autoscaling/v2/horizontalpodautoscalers spec.behavior.scaleDown.tolerance", "/apis/autoscaling/v2/horizontalpodautoscalers spec.behavior.scaleUp.tolerance",
			"/apis/storage.k8s.io/v1/csidrivers spec.nodeAllocatableUpdatePeriodSeconds", "/apis/storage.k8s.io/v1/csidrivers spec.serviceAccountTokenInSecrets",
		}},
		{"1.36", "1.36.1", "eks.4", date(2026, 6, 2), date(2027, 8, 2), date(2028, 8, 2), []string{
			"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
			"/apis/resource.k8s.io/v1beta2/devicetaintrules",
		}, []string{
			"/apis/resource.k8s.io/v1/deviceclasses spec.extendedResourceName", "/apis/resource.k8s.io/v1/resourceclaims spec.devices.constraints[].distinctAttribute",
			"/apis/resource.k8s.io/v1/resourceclaims spec.devices.requests[].exactly.capacity", "/apis/resource.k8s.io/v1/resourceclaims spec.devices.requests[].exactly.tolerations",
		}},
	}
}

// Lookup returns the version of a minor, or false if it is not offered.
func Lookup(minor string) (Version, bool) {
	all := All()
	i := slices.IndexFunc(all, func(v Version) bool { return v.Minor == minor })
	if i < 0 {
		return Version{}, false
	}
	return all[i], true
}

// Number returns N of 1.N, or 0.
func Number(minor string) int {
	_, n, _ := strings.Cut(minor, ".")
	i, _ := strconv.Atoi(n)
	return i
}

func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
