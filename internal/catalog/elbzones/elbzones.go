// Package elbzones is the catalogue of the Route 53 hosted zones that hold the names
// of load balancers. Any package may import it.
package elbzones

import "strings"

// table lists the zones of Application and Classic Load Balancers, and of Network
// Load Balancers.
// https://docs.aws.amazon.com/general/latest/gr/elb.html, by way of the table in
// kubernetes-sigs/external-dns, which does not have the newest regions.
const table = `
us-east-2      Z3AADJGX6KTTL2 ZLMOA37VPKANP
us-east-1      Z35SXDOTRQ7X7K Z26RNL4JYFTOTI
us-west-1      Z368ELLRRE2KJ0 Z24FKFUX50B4VW
us-west-2      Z1H1FL5HABSF5  Z18D5FSROUN65G
ca-central-1   ZQSVJUPU6J1EY  Z2EPGBW3API2WT
ap-east-1      Z3DQVH9N71FHZ0 Z12Y7K3UBGUAD1
ap-south-1     ZP97RAFLXTNZK  ZVDDRBQ08TROA
ap-northeast-2 ZWKZPGTI48KDX  ZIBE1TIR4HY56
ap-northeast-3 Z5LXEXXYW11ES  -
ap-southeast-1 Z1LMS91P8CMLE5 ZKVM4W9LS7TM
ap-southeast-2 Z1GM3OXH4ZPM65 ZCT6FZBF4DROD
ap-northeast-1 Z14GRHDCWA56QT Z31USIVHYNEOWT
eu-central-1   Z215JYRZR1TBD5 Z3F0SRJ5LGBH90
eu-west-1      Z32O12XQLNTSW2 Z2IFOLAFXWLO4F
eu-west-2      ZHURV8PSTC4K8  ZD4D7Y8KGAS4G
eu-west-3      Z3Q77PNBQS71R4 Z1CMS0P5QUZ6D5
eu-north-1     Z23TAZ6LKFMNIO Z1UDT6IFJ4EJM
eu-south-1     Z3ULH7SSC9OV64 Z23146JA1KNAFP
sa-east-1      Z2P70J7HTTTPLU ZTK26PT1VY4CU
me-south-1     ZS929ML54UICD  Z3QSRYVP46NYYV
af-south-1     Z268VQBMOI5EKX Z203XCE67M25HM
`

// ID returns the hosted zone of a region's load balancers. For a region that is not in the table, it returns an ID
// that looks like AWS's.
func ID(region string, network bool) string {
	column := 1
	if network {
		column = 2
	}
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == region && f[column] != "-" {
			return f[column]
		}
	}
	return "Z" + strings.ToUpper(strings.ReplaceAll(region, "-", "")) + [3]string{"", "APP", "NET"}[column]
}
