import { useAuth } from '../../lib/auth';
import { Empty } from '../../ui/page';
import { TabbedPage } from '../../ui/tabs';
import { Audit } from './audit';
import { Configuration } from './configuration';
import { Diagnostics } from './diagnostics';
import { Overview } from './overview';
import { Runs } from './runs';
import { Users } from './users';

export default function Administration() {
  const auth = useAuth();
  if (auth.status !== 'in' || !auth.me.administrator) return <Empty title="This page is for administrators">An administrator can give you the right to see it.</Empty>;
  return (
    <TabbedPage
      title="Administration"
      tabs={[
        { id: 'overview', label: 'Overview', content: <Overview /> },
        { id: 'runs', label: 'Runs', content: <Runs /> },
        { id: 'users', label: 'Users', content: <Users /> },
        { id: 'audit', label: 'Audit', content: <Audit /> },
        { id: 'diagnostics', label: 'Diagnostics', content: <Diagnostics /> },
        { id: 'configuration', label: 'Configuration', content: <Configuration /> },
      ]}
    />
  );
}
