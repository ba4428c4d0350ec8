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
      title="Library"
      tabs={[
        { id: 'skills', label: 'Skills', content: <Skills /> },
        { id: 'tools', label: 'Tool servers', content: <ToolServers /> },
        { id: 'memories', label: 'Memories', content: <Memories /> },
        { id: 'solutions', label: 'Solutions', content: <Solutions /> },
        { id: 'apps', label: 'Apps', content: <Apps /> },
        { id: 'shared', label: 'Shared', content: <Shared /> },
        { id: 'tasks', label: 'Background tasks', content: <Tasks /> },
      ]}
    />
  );
}
