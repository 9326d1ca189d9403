package bed

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// openStackCRDs stand in for those of the OpenStack provider.
//
//go:embed crds/*.yaml
var openStackCRDs embed.FS

// clusterAPIDir returns Cluster API's folder in Go's module cache, and fetches it when it is not there.
func clusterAPIDir(ctx context.Context) (string, error) {
	dir, err := sourceDir()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "sigs.k8s.io/cluster-api")
	cmd.Dir = filepath.Join(dir, "..", "clusterapi")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if err != nil && len(out) == 0 {
		return "", fmt.Errorf("%v: %w", cmd.Args, err)
	}
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("%v: %w", cmd.Args, err)
	}
	if module.Error != "" {
		return "", fmt.Errorf("%v: %s", cmd.Args, module.Error)
	}
	return module.Dir, nil
}

// installCRDs creates the types of Cluster API and of the OpenStack provider and waits until they
// are served.
func (m *Management) installCRDs(ctx context.Context) error {
	dir, err := clusterAPIDir(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, source := range []struct {
		files fs.FS
		glob  string
	}{
		{os.DirFS(dir), "core/config/crd/bases/*.yaml"},
		{openStackCRDs, "crds/*.yaml"},
	} {
		created, err := m.createCRDs(ctx, source.files, source.glob)
		if err != nil {
			return err
		}
		names = append(names, created...)
	}
	return m.apiserver.waitReady(ctx, time.Minute, func(ctx context.Context) error {
		for _, name := range names {
			if err := m.established(ctx, name); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *Management) createCRDs(ctx context.Context, files fs.FS, glob string) (names []string, err error) {
	paths, err := fs.Glob(files, glob)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no CustomResourceDefinition in %s", glob)
	}
	for _, path := range paths {
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := m.Client.Create(ctx, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		names = append(names, crd.Name)
	}
	return names, nil
}

func (m *Management) established(ctx context.Context, name string) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := m.Client.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
		return err
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the type %s is not served yet", name)
}
