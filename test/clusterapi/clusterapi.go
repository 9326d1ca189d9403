// Package clusterapi pins the release of Cluster API whose CustomResourceDefinitions the test bed
// installs. It is a module of its own so that the approver's module graph stays free of Cluster
// API's root module. "go mod download -json sigs.k8s.io/cluster-api", run in this folder, names
// the folder that holds them.
package clusterapi

import (
	// A small package of that module: without an import go mod tidy drops the requirement.
	_ "sigs.k8s.io/cluster-api/version"
)
