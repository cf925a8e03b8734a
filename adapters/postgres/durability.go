package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// risksSQL has a line for each setting under which a server may lose what it said was committed. A server whose synchronous_commit
// is off is no risk: Forge turns it on for its own connections.
const risksSQL = `SELECT text FROM (VALUES
	(1, current_setting('fsync') = 'off',
		'fsync is off: when its machine stops, this database may lose or break everything that was acknowledged'),
	(2, current_setting('full_page_writes') = 'off',
		'full_page_writes is off: when its machine stops in the middle of a page, this database may be broken'),
	(3, current_setting('synchronous_commit') = 'local' AND current_setting('synchronous_standby_names') <> '',
		'synchronous_commit is local: commits do not wait for the standby that synchronous_standby_names asks for')
	) r (n, so, text) WHERE so ORDER BY n`

// Risks says, one sentence each, under which settings of the server an acknowledged command may be lost. The settings are those of
// the server that takes writes now.
func (s *Store) Risks(ctx context.Context) ([]string, error) {
	return collect(ctx, s.pool, "read the settings that durability rests on", pgx.RowTo[string], risksSQL)
}
