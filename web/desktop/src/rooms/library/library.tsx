import { t } from '../../lib/i18n';
import { TabbedPage } from '../../ui/tabs';
import { Apps } from './apps';
import { Memories } from './memories';
import { Shared } from './shared';
import { Skills } from './skills';
import { Solutions } from './solutions';
import { Tasks } from './tasks';
import { ToolServers } from './tool-servers';

export default function Library() {
  return (
    <TabbedPage
      title={t('Library')}
      tabs={[
        { id: 'skills', label: t('Skills'), content: <Skills /> },
        { id: 'tools', label: t('Tool servers'), content: <ToolServers /> },
        { id: 'memories', label: t('Memories'), content: <Memories /> },
        { id: 'solutions', label: t('Solutions'), content: <Solutions /> },
        { id: 'apps', label: t('Apps'), content: <Apps /> },
        { id: 'shared', label: t('Shared'), content: <Shared /> },
        { id: 'tasks', label: t('Background tasks'), content: <Tasks /> },
      ]}
    />
  );
}
