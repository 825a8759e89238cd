package dbtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// mysqlTemplates are data folders that have never been started, one a server program, which the nodes of all clusters of
// this process are copied from: making one takes longer than everything else. They go with the process, as the folders
// of clusters do that nobody closes.
var mysqlTemplates = struct {
	sync.Mutex                    // held while a template is made: whoever wants it, too, waits
	folders    map[string]*folder // by program; kept, so that the locks are that say the folders are in use
}{folders: map[string]*folder{}}

const mysqlTemplateDir = "template"

// mysqlTemplate returns the data folder to copy.
func mysqlTemplate(ctx context.Context, flavor *mysqlFlavor, program string, owner *serverUser) (_ string, err error) {
	mysqlTemplates.Lock()
	defer mysqlTemplates.Unlock()
	if folder := mysqlTemplates.folders[program]; folder != nil {
		return filepath.Join(folder.path, mysqlTemplateDir), nil
	}
	folder, err := newFolder(owner, mysqlNodeSpace)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = folder.remove()
		}
	}()
	dataDir, tmpDir := filepath.Join(folder.path, mysqlTemplateDir), filepath.Join(folder.path, mysqlTmp)
	sqlFile := filepath.Join(folder.path, "users.sql")
	if err := makeOwnedDir(tmpDir, owner); err != nil {
		return "", err
	}
	if err := folder.writeFile(sqlFile, strings.Join(flavor.userStatements(), ";\n")+";\n"); err != nil {
		return "", err
	}
	launcher := newLauncher()
	defer launcher.close()
	name, args := flavor.initialize(program, dataDir, tmpDir, sqlFile)
	if err := launcher.run(mysqlCommand(ctx, folder, owner, name, args...)); err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	// Every copy makes its own server_uuid.
	if err := os.Remove(filepath.Join(dataDir, "auto.cnf")); ignoreVanished(err) != nil {
		return "", err
	}
	mysqlTemplates.folders[program] = folder
	return dataDir, nil
}

// mysqlCommand is a program of the servers, run as their user.
func mysqlCommand(ctx context.Context, folder *folder, owner *serverUser, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = serverAttr(owner)
	cmd.Dir = folder.path
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + folder.path}
	return cmd
}
